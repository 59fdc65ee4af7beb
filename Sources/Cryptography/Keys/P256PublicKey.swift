import CCrypto
import LatchkeyModel

/// A point on the curve P-256 (FIPS 186-4, `prime256v1`): verifies signatures, and names its holder by its thumbprint.
///
/// A value of this type is always a point on the curve: anything else does not construct.
package struct P256PublicKey: Sendable {
  /// The coordinates, 32 bytes each, big-endian.
  package let x: [UInt8]
  package let y: [UInt8]
  private let key: EVPKey

  static let curve = "prime256v1"
  static let pointByteCount = 65

  /// Errors: ``CryptographyError/invalidKey(_:)`` for a coordinate of another length and for a point off the curve.
  package init(x: [UInt8], y: [UInt8]) throws(CryptographyError) {
    guard x.count == P256Point.coordinateByteCount, y.count == P256Point.coordinateByteCount else {
      throw .invalidKey("a coordinate of P-256 has 32 bytes")
    }
    self.x = x
    self.y = y
    key = try Self.load(point: [0x04] + x + y)
  }

  /// The public half of a key that OpenSSL made or read.
  init(_ key: EVPKey) throws(CryptographyError) {
    let point = try key.encodedPoint()
    // A key of its own, so that it holds nothing secret.
    try self.init(x: Array(point[1..<33]), y: Array(point[33...]))
  }

  /// The JWK thumbprint (RFC 7638), base64url of 32 bytes: `jkt` of RFC 9449.
  package var thumbprint: String { P256Point(known: x, y).thumbprint }

  /// Whether `signature` (64 bytes, r then s) is over SHA-256 of `message`. False for any other length.
  package func verify(signature: [UInt8], message: [UInt8]) -> Bool {
    guard let der = ECDSASignature.der(raw: signature) else { return false }
    return key.verify(signature: der, digest: SHA256Hash.hash(message))
  }

  /// The curve without a point, which new keys copy: measured, a key made this way costs 4 µs, one that names its curve
  /// to EVP_PKEY_fromdata 16 µs and one decoded by d2i_PUBKEY 100 µs. Nil only when OpenSSL has no P-256.
  private static let parameters = makeParameters()

  private static func makeParameters() -> EVPKey? {
    var curve = Array(Self.curve.utf8CString)
    var made: OpaquePointer?
    // The parameter points into the array, which lives until EVP_PKEY_fromdata has copied it; the context is freed here
    // and the key handed to its owner.
    let status = unsafe curve.withUnsafeMutableBufferPointer { curve -> Int32 in
      var parameters = unsafe [
        OSSL_PARAM_construct_utf8_string(latchkey_param_group_name, curve.baseAddress, 0),
        OSSL_PARAM_construct_end(),
      ]
      guard let context = unsafe EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { return 0 }
      defer { unsafe EVP_PKEY_CTX_free(context) }
      guard unsafe EVP_PKEY_fromdata_init(context) == 1 else { return 0 }
      return unsafe EVP_PKEY_fromdata(context, &made, latchkey_evp_pkey_parameters, &parameters)
    }
    guard status == 1, let made = unsafe made else {
      ERR_clear_error()
      return nil
    }
    return unsafe EVPKey(owning: made)
  }

  /// OpenSSL checks while it sets the point that it satisfies the curve's equation; the cofactor of P-256 is 1, so no
  /// other check is needed (SP 800-56A section 5.6.2.3.4).
  private static func load(point: [UInt8]) throws(CryptographyError) -> EVPKey {
    guard let parameters, let made = unsafe EVP_PKEY_new() else { throw .system(operation: "make a key") }
    // From here its owner frees it.
    let key = unsafe EVPKey(owning: made)
    // The parameters live for ever and are only read; the point is copied within its count.
    let isSet =
      unsafe EVP_PKEY_copy_parameters(key.pointer, parameters.pointer) == 1
      && EVP_PKEY_set1_encoded_public_key(key.pointer, point, point.count) == 1
    guard isSet else {
      ERR_clear_error()
      throw .invalidKey("not a point of P-256")
    }
    return key
  }
}

extension P256PublicKey: Hashable {
  package static func == (left: P256PublicKey, right: P256PublicKey) -> Bool {
    left.x == right.x && left.y == right.y
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(x)
    hasher.combine(y)
  }
}
