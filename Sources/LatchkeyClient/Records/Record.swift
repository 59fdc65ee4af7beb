/// A row of what a person made in the app.
public struct Record: Sendable, Equatable {
  /// Lower-case letters, digits, `_` and `-`, at most 64 bytes.
  public var collection: String
  /// At most 256 bytes.
  public var key: String
  /// Bytes that the app understands, at most 64 KiB.
  public var value: [UInt8]
  /// The quantity that the policies sum and max work on.
  public var number: Int64
  /// When the person did it, in milliseconds since 1970-01-01T00:00:00Z: the policy newest compares it.
  public var updatedAt: Int64
  /// Set by the service: grows with every write of the row.
  public var revision: Int64

  public init(
    collection: String,
    key: String,
    value: [UInt8],
    number: Int64 = 0,
    updatedAt: Int64,
    revision: Int64 = 0
  ) {
    self.collection = collection
    self.key = key
    self.value = value
    self.number = number
    self.updatedAt = updatedAt
    self.revision = revision
  }
}
