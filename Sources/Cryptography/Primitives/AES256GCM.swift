import CCrypto

/// AES-256 in Galois/Counter Mode (NIST SP 800-38D): who has the key reads what was sealed, and sees whether it is that.
package enum AES256GCM {
  package static let keyByteCount = 32
  private static let nonceByteCount = 12
  private static let tagByteCount = 16

  // EVP_CIPHER_fetch gives a counted reference that this constant keeps for the life of the process.
  nonisolated(unsafe) private static let algorithm: OpaquePointer = {
    guard let algorithm = unsafe EVP_CIPHER_fetch(nil, "AES-256-GCM", nil) else {
      preconditionFailure("the system's OpenSSL has no AES-256-GCM")
    }
    return unsafe algorithm
  }()

  private static let contexts = unsafe ContextPool(
    make: { unsafe EVP_CIPHER_CTX_new() },
    free: { unsafe EVP_CIPHER_CTX_free($0) }
  )

  /// A fresh nonce, the ciphertext and its tag. `context` is not in it, and has to be the same to open it.
  package static func seal(_ message: [UInt8], key: [UInt8], context: [UInt8]) -> [UInt8] {
    precondition(key.count == keyByteCount, "a key has 32 bytes")
    let nonce = SecureRandom.bytes(nonceByteCount)
    var text = [UInt8](repeating: 0, count: message.count)
    var tag = [UInt8](repeating: 0, count: tagByteCount)
    var length: Int32 = 0
    // Each call reads or writes the arrays' own bytes, as many as are given: GCM makes no more text than it is given. A
    // context is in the hands of one thread.
    let done = unsafe contexts.withContext { cipher in
      unsafe EVP_EncryptInit_ex2(cipher, algorithm, key, nonce, nil) == 1
        && EVP_EncryptUpdate(cipher, nil, &length, context, Int32(context.count)) == 1
        && EVP_EncryptUpdate(cipher, &text, &length, message, Int32(message.count)) == 1
        && EVP_EncryptFinal_ex(cipher, nil, &length) == 1
        && EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, Int32(tagByteCount), &tag) == 1
    }
    precondition(done == true, "sealing needs no more than a context")
    return nonce + text + tag
  }

  /// Nil for what was not sealed with this key and context.
  package static func open(_ sealed: [UInt8], key: [UInt8], context: [UInt8]) -> [UInt8]? {
    guard key.count == keyByteCount, sealed.count >= nonceByteCount + tagByteCount else { return nil }
    let nonce = Array(sealed.prefix(nonceByteCount))
    let message = Array(sealed.dropFirst(nonceByteCount).dropLast(tagByteCount))
    var tag = Array(sealed.suffix(tagByteCount))
    var text = [UInt8](repeating: 0, count: message.count)
    var length: Int32 = 0
    // As above.
    let isTrue = unsafe contexts.withContext { cipher in
      unsafe EVP_DecryptInit_ex2(cipher, algorithm, key, nonce, nil) == 1
        && EVP_DecryptUpdate(cipher, nil, &length, context, Int32(context.count)) == 1
        && EVP_DecryptUpdate(cipher, &text, &length, message, Int32(message.count)) == 1
        && EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, Int32(tagByteCount), &tag) == 1
        && EVP_DecryptFinal_ex(cipher, nil, &length) == 1
    }
    return isTrue == true ? text : nil
  }
}
