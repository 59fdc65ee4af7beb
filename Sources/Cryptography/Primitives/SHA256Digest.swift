import CCrypto

/// SHA-256 of what comes in pieces.
@safe package final class SHA256Digest {
  // EVP_MD_fetch gives a counted reference that this constant keeps for the life of the process.
  nonisolated(unsafe) private static let algorithm: OpaquePointer = {
    guard let algorithm = unsafe EVP_MD_fetch(nil, "SHA256", nil) else {
      preconditionFailure("the system's OpenSSL has no SHA-256")
    }
    return unsafe algorithm
  }()

  // Made in `init`, freed in `deinit`, never handed out.
  private let context: OpaquePointer

  package init() {
    guard let context = unsafe EVP_MD_CTX_new(), unsafe EVP_DigestInit_ex2(context, Self.algorithm, nil) == 1
    else { preconditionFailure("hashing needs no more than a context") }
    unsafe self.context = context
  }

  deinit {
    unsafe EVP_MD_CTX_free(context)
  }

  package func update(_ bytes: [UInt8]) {
    // The call reads `bytes` and keeps nothing of them.
    let done = unsafe bytes.withUnsafeBytes { bytes in
      unsafe EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
    }
    precondition(done == 1, "hashing memory cannot fail")
  }

  /// The hash of all that came, in hexadecimal as `sha256sum` prints it. Nothing may come after this.
  package func hexadecimal() -> String {
    var hash = [UInt8](repeating: 0, count: SHA256Hash.byteCount)
    // The array has room for the 32 bytes that are written.
    let done = unsafe hash.withUnsafeMutableBufferPointer { hash in
      unsafe EVP_DigestFinal_ex(context, hash.baseAddress, nil)
    }
    precondition(done == 1, "hashing memory cannot fail")
    return hash.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }
}
