import LatchkeyModel

/// A record to be written.
package struct RecordDraft: Sendable, Equatable {
  package let name: RecordName
  package let content: RecordContent

  package init(name: RecordName, content: RecordContent) {
    self.name = name
    self.content = content
  }
}
