/// Some rows of a collection, newest first.
public struct RecordPage: Sendable, Equatable {
  public let records: [Record]
  /// Asks for the rows that follow; nil after the last.
  public let next: String?
}
