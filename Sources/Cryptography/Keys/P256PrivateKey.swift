import CCrypto

/// A P-256 key that signs ES256 (ECDSA with SHA-256). It prints as `[redacted]`.
package struct P256PrivateKey: Sendable, CustomStringConvertible, CustomDebugStringConvertible {
  package let publicKey: P256PublicKey
  private let key: EVPKey

  /// A fresh random key.
  package init() throws(CryptographyError) {
    var curve = Array(P256PublicKey.curve.utf8CString)
    var generated: OpaquePointer?
    // The parameters point into `curve` while OpenSSL reads them; the context is freed here, the key gets its owner.
    let status = unsafe curve.withUnsafeMutableBufferPointer { curve -> Int32 in
      var parameters = unsafe [
        OSSL_PARAM_construct_utf8_string(latchkey_param_group_name, curve.baseAddress, 0),
        OSSL_PARAM_construct_end(),
      ]
      guard let context = unsafe EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { return 0 }
      defer { unsafe EVP_PKEY_CTX_free(context) }
      guard unsafe EVP_PKEY_keygen_init(context) == 1, unsafe EVP_PKEY_CTX_set_params(context, &parameters) == 1 else {
        return 0
      }
      return unsafe EVP_PKEY_generate(context, &generated)
    }
    guard status == 1, let generated = unsafe generated else {
      ERR_clear_error()
      throw .system(operation: "generate a key")
    }
    key = unsafe EVPKey(owning: generated)
    publicKey = try P256PublicKey(key)
  }

  /// Reads an unencrypted PEM file's text (PKCS #8 or SEC 1).
  ///
  /// Errors: ``CryptographyError/invalidKey(_:)`` for anything that is not one P-256 private key.
  package init(pem: [UInt8]) throws(CryptographyError) {
    guard pem.count <= Limits.keyFileBytes else { throw .invalidKey("the file is too long for a key") }
    var read: OpaquePointer?
    // The memory BIO reads `pem` while the array lives, and is freed before it ends. The callback refuses a
    // passphrase, so OpenSSL never asks the terminal for one.
    unsafe pem.withUnsafeBytes { pem in
      guard let source = unsafe BIO_new_mem_buf(pem.baseAddress, Int32(pem.count)) else { return }
      defer { unsafe BIO_free(source) }
      unsafe read = unsafe PEM_read_bio_PrivateKey(source, nil, { _, _, _, _ in -1 }, nil)
    }
    guard let read = unsafe read else {
      ERR_clear_error()
      throw .invalidKey("not an unencrypted private key in PEM form")
    }
    let key = unsafe EVPKey(owning: read)
    guard key.isP256 else { throw .invalidKey("not a key on the curve P-256") }
    self.key = key
    publicKey = try P256PublicKey(key)
  }

  /// The key as an unencrypted PKCS #8 PEM text. A secret: it belongs in a file of mode 0600 and nowhere else.
  package func pem() throws(CryptographyError) -> [UInt8] {
    var text: [UInt8] = []
    // The BIO owns what is written to it until it is freed here; BIO_read copies at most `count` bytes out.
    let status = { () -> Int32 in
      guard let sink = unsafe BIO_new(BIO_s_secmem()) else { return 0 }
      defer { unsafe BIO_free(sink) }
      guard unsafe PEM_write_bio_PKCS8PrivateKey(sink, key.pointer, nil, nil, 0, nil, nil) == 1 else { return 0 }
      var chunk = [UInt8](repeating: 0, count: 512)
      while true {
        let count = unsafe chunk.withUnsafeMutableBytes { chunk in
          unsafe BIO_read(sink, chunk.baseAddress, Int32(chunk.count))
        }
        guard count > 0 else { return 1 }
        text += chunk[..<Int(count)]
      }
    }()
    guard status == 1, !text.isEmpty else {
      ERR_clear_error()
      throw .system(operation: "write a key")
    }
    return text
  }

  /// The signature over SHA-256 of `message`: 64 bytes, r then s (RFC 7518 section 3.4). Costs about 30 µs.
  package func sign(_ message: [UInt8]) throws(CryptographyError) -> [UInt8] {
    let der = try key.sign(digest: SHA256Hash.hash(message))
    guard let raw = ECDSASignature.raw(der: der) else { throw .system(operation: "sign") }
    return raw
  }

  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
}
