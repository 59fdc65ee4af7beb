import CSSL

/// Reads what PEM holds into OpenSSL's objects.
enum PEM {
  /// Every certificate of `bytes`, each owned by the caller; nil when there is none or one does not parse.
  static func certificates(_ bytes: [UInt8]) -> [X509Certificate]? {
    unsafe withBIO(bytes) { bio in
      var certificates: [X509Certificate] = []
      // The BIO lives for this closure; each certificate is a new reference that its owner frees.
      while let certificate = unsafe lk_pem_read_certificate(bio) {
        unsafe certificates.append(X509Certificate(owning: certificate))
      }
      // "No start line" is how the end reads; anything else is a certificate that does not parse.
      let isAtEnd = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE
      ERR_clear_error()
      return isAtEnd && !certificates.isEmpty ? certificates : nil
    }
  }

  /// The private key of `bytes`, which must not be encrypted.
  static func privateKey(_ bytes: [UInt8]) -> PrivateKey? {
    unsafe withBIO(bytes) { bio in
      guard let key = unsafe lk_pem_read_private_key(bio) else { return nil }
      return unsafe PrivateKey(owning: key)
    }
  }

  private static func withBIO<T>(_ bytes: [UInt8], _ body: (OpaquePointer) -> T?) -> T? {
    guard let count = Int32(exactly: bytes.count) else { return nil }
    ERR_clear_error()
    // The BIO reads from `bytes` in place and is freed before they are.
    return unsafe bytes.withUnsafeBytes { bytes -> T? in
      guard let bio = unsafe BIO_new_mem_buf(bytes.baseAddress, count) else { return nil }
      defer { unsafe BIO_free(bio) }
      return unsafe body(bio)
    }
  }
}
