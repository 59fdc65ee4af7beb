/// One step of a guide: what is pointed at, on which page, with which words.
package struct GuideStep: Sendable, Equatable {
  package let id: GuideID
  package let page: String
  /// The path of what is pointed at; empty for the step that ends a guide.
  package let target: String
  package let messageKey: String
  /// The label stands on the other side of the target.
  package let isReversed: Bool
  /// The first version of the guide with this step.
  package let sinceVersion: Int64

  package init(
    id: GuideID, page: String, target: String, messageKey: String, isReversed: Bool, sinceVersion: Int64
  ) {
    self.id = id
    self.page = page
    self.target = target
    self.messageKey = messageKey
    self.isReversed = isReversed
    self.sinceVersion = sinceVersion
  }

  /// Whoever arrives here has completed the guide.
  package var isEnd: Bool { target.isEmpty }
}
