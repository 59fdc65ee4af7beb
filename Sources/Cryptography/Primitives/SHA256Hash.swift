import CCrypto

/// SHA-256 (FIPS 180-4).
package enum SHA256Hash {
  /// The length of a hash in bytes.
  package static let byteCount = 32

  // EVP_MD_fetch gives a counted reference that this constant keeps for the life of the process.
  nonisolated(unsafe) static let algorithm: OpaquePointer = {
    guard let algorithm = unsafe EVP_MD_fetch(nil, "SHA256", nil) else {
      preconditionFailure("the system's OpenSSL has no SHA-256")
    }
    return unsafe algorithm
  }()

  private static let contexts = unsafe ContextPool(
    make: { unsafe EVP_MD_CTX_new() },
    free: { unsafe EVP_MD_CTX_free($0) }
  )

  /// The 32-byte hash of `message`.
  package static func hash(_ message: [UInt8]) -> [UInt8] {
    // The three calls read `message` and write 32 bytes into the buffer, which has that capacity; a context is in the
    // hands of one thread. Hashing memory cannot fail with a fetched algorithm, short of no memory at all.
    unsafe [UInt8](unsafeUninitializedCapacity: byteCount) { output, initialized in
      let done = unsafe contexts.withContext { context in
        unsafe message.withUnsafeBytes { message in
          unsafe EVP_DigestInit_ex2(context, algorithm, nil) == 1
            && EVP_DigestUpdate(context, message.baseAddress, message.count) == 1
            && EVP_DigestFinal_ex(context, output.baseAddress, nil) == 1
        }
      }
      precondition(done == true, "hashing needs no more than a context")
      initialized = byteCount
    }
  }
}
