import CCrypto

/// SHA-256 (FIPS 180-4).
package enum SHA256Hash {
  /// The length of a hash in bytes.
  package static let byteCount = 32

  /// The 32-byte hash of `message`.
  package static func hash(_ message: [UInt8]) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: byteCount) { output, initialized in
      // Room for 32 bytes, all of which are written.
      unsafe write(hashOf: message.span, to: output.baseAddress)
      initialized = byteCount
    }
  }

  /// The hash of `message`, with nothing allocated.
  package static func hash(_ message: Span<UInt8>) -> InlineArray<32, UInt8> {
    var hash = InlineArray<32, UInt8>(repeating: 0)
    var output = hash.mutableSpan
    // As above.
    unsafe output.withUnsafeMutableBufferPointer { output in unsafe write(hashOf: message, to: output.baseAddress) }
    return hash
  }

  /// - Parameter output: has room for 32 bytes.
  private static func write(hashOf message: Span<UInt8>, to output: UnsafeMutablePointer<UInt8>?) {
    // Reads `message` and writes 32 bytes. Hashing memory cannot fail.
    let done = unsafe message.withUnsafeBufferPointer { message in
      unsafe latchkey_sha256(message.baseAddress, message.count, output)
    }
    precondition(done == 1, "hashing needs nothing")
  }
}
