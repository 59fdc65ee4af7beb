/// Why bytes are not the JSON that was expected, and where.
package struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
  package let reason: String
  /// The offset in bytes at which parsing stopped.
  package let offset: Int

  package var description: String { "\(reason) at byte \(offset)" }
}
