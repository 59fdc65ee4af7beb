/// Why a message could not be read or written. All but `needsMoreMemory` on the way out are the peer's fault, and a
/// retry of the same bytes cannot help.
package enum ProtobufError: Error, Sendable, Equatable {
  /// The bytes are no message of this type: cut short, a length beyond the end, a wire type that does not match.
  case malformed
  /// The message would use more memory than `Limits` gives it.
  case needsMoreMemory
  /// A `string` field holds bytes that are not UTF-8. The path is the message's own, such as `device.public_key.x`.
  case invalidUTF8(field: String)

  /// The same error as seen from the message that holds this one in `field`.
  package func within(_ field: String) -> ProtobufError {
    guard case .invalidUTF8(let inner) = self else { return self }
    return .invalidUTF8(field: "\(field).\(inner)")
  }
}
