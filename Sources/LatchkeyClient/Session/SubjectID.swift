/// Who a session speaks for, as an opaque name. Names databases and folders; never shown to a person, so it has no
/// text form of its own.
public struct SubjectID: Sendable, Hashable {
  public let rawValue: String

  public init(_ rawValue: String) {
    self.rawValue = rawValue
  }
}

extension SubjectID: CustomStringConvertible, CustomDebugStringConvertible {
  public var description: String { "[subject]" }
  public var debugDescription: String { "[subject]" }
}
