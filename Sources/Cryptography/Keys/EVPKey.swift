import CCrypto

/// Owns one EVP_PKEY on the curve P-256, and the contexts that sign or verify with it.
///
/// An EVP_PKEY is not changed after it is made, and OpenSSL counts its references atomically: threads may share it. A
/// context is used by one thread at a time, which the pool sees to.
@safe final class EVPKey: @unchecked Sendable {
  // Freed in `deinit`, never let out of this file's types.
  let pointer: OpaquePointer
  private let signing: ContextPool
  private let verifying: ContextPool

  /// Takes ownership of `pointer`.
  init(owning pointer: OpaquePointer) {
    unsafe self.pointer = pointer
    // The pools die with this object, so the key outlives every context.
    signing = unsafe ContextPool(
      make: {
        guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, pointer, nil) else { return nil }
        guard unsafe EVP_PKEY_sign_init(context) == 1 else {
          unsafe EVP_PKEY_CTX_free(context)
          return nil
        }
        return unsafe context
      },
      free: { unsafe EVP_PKEY_CTX_free($0) }
    )
    verifying = unsafe ContextPool(
      make: {
        guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, pointer, nil) else { return nil }
        guard unsafe EVP_PKEY_verify_init(context) == 1 else {
          unsafe EVP_PKEY_CTX_free(context)
          return nil
        }
        return unsafe context
      },
      free: { unsafe EVP_PKEY_CTX_free($0) }
    )
  }

  deinit {
    // The owner lets go; contexts hold references of their own.
    unsafe EVP_PKEY_free(pointer)
  }

  /// The DER signature over `digest`.
  func sign(digest: [UInt8]) throws(CryptographyError) -> [UInt8] {
    var signature = [UInt8](repeating: 0, count: ECDSASignature.derByteLimit)
    var length = signature.count
    // EVP_PKEY_sign writes at most `length` bytes, the array's size, and sets it to what it wrote.
    let status = unsafe signing.withContext { context in
      unsafe signature.withUnsafeMutableBufferPointer { signature in
        unsafe digest.withUnsafeBufferPointer { digest in
          unsafe EVP_PKEY_sign(context, signature.baseAddress, &length, digest.baseAddress, digest.count)
        }
      }
    }
    guard status == 1, length <= signature.count else {
      ERR_clear_error()
      throw .system(operation: "sign")
    }
    return Array(signature[..<length])
  }

  /// Whether `signature` (DER) is this key's over `digest`.
  func verify(signature: [UInt8], digest: [UInt8]) -> Bool {
    // EVP_PKEY_verify reads the two arrays within their counts and keeps neither.
    let status = unsafe verifying.withContext { context in
      unsafe signature.withUnsafeBufferPointer { signature in
        unsafe digest.withUnsafeBufferPointer { digest in
          unsafe EVP_PKEY_verify(context, signature.baseAddress, signature.count, digest.baseAddress, digest.count)
        }
      }
    }
    if status != 1 { ERR_clear_error() }
    return status == 1
  }

  /// The 65 bytes 0x04 x y (SEC 1 section 2.3.3).
  func encodedPoint() throws(CryptographyError) -> [UInt8] {
    var point = [UInt8](repeating: 0, count: P256PublicKey.pointByteCount)
    var length = 0
    // Writes at most `count` bytes into the array.
    let status = unsafe point.withUnsafeMutableBufferPointer { point in
      unsafe EVP_PKEY_get_octet_string_param(
        pointer,
        OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY,
        point.baseAddress,
        point.count,
        &length
      )
    }
    guard status == 1, length == point.count, point[0] == 0x04 else {
      ERR_clear_error()
      throw .invalidKey("not an uncompressed point of P-256")
    }
    return point
  }

  /// Whether the key is on P-256, by OpenSSL's name of the curve.
  var isP256: Bool {
    var name = [CChar](repeating: 0, count: 32)
    var length = 0
    // Writes at most `count` bytes with a terminating NUL, and their number without it.
    let status = unsafe name.withUnsafeMutableBufferPointer { name in
      unsafe EVP_PKEY_get_group_name(pointer, name.baseAddress, name.count, &length)
    }
    guard status == 1, length < name.count else {
      ERR_clear_error()
      return false
    }
    return name[..<length].elementsEqual(P256PublicKey.curve.utf8.map { CChar(bitPattern: $0) })
  }
}
