import CCrypto
import LatchkeyModel

/// A point on the curve P-256 (FIPS 186-4, `prime256v1`) that only has to be named, by its thumbprint: to check it takes a third of
/// what a ``P256PublicKey`` takes, which verifies as well.
package struct P256Point: Sendable, Hashable {
  /// The coordinates, 32 bytes each, big-endian.
  package let x: [UInt8]
  package let y: [UInt8]

  static let coordinateByteCount = 32

  /// Errors: ``CryptographyError/invalidKey(_:)`` for a coordinate of another length and for a point off the curve.
  package init(x: [UInt8], y: [UInt8]) throws(CryptographyError) {
    guard x.count == Self.coordinateByteCount, y.count == Self.coordinateByteCount else {
      throw .invalidKey("a coordinate of P-256 has 32 bytes")
    }
    guard try Self.isOnCurve([0x04] + x + y) else { throw .invalidKey("not a point of P-256") }
    self.init(known: x, y)
  }

  /// Coordinates of which somebody else has checked that they are on the curve.
  init(known x: [UInt8], _ y: [UInt8]) {
    self.x = x
    self.y = y
  }

  /// The JWK thumbprint (RFC 7638), base64url of 32 bytes: `jkt` of RFC 9449.
  package var thumbprint: String {
    // The members that the RFC requires, in lexicographic order, without white space.
    let json = #"{"crv":"P-256","kty":"EC","x":"\#(Base64URL.encode(x))","y":"\#(Base64URL.encode(y))"}"#
    return Base64URL.encode(SHA256Hash.hash(Array(json.utf8)))
  }

  /// OpenSSL's curve.
  // Sendable: made once, never freed, and only read; OpenSSL lets threads share a group that none of them changes.
  @safe private struct Curve: @unchecked Sendable {
    let group: OpaquePointer
  }

  /// Nil only when OpenSSL has no P-256.
  private static let curve = unsafe EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1).map { unsafe Curve(group: $0) }

  /// Whether an encoded point (SEC 1 section 2.3.4) satisfies the curve's equation. The cofactor of P-256 is 1, so no other check
  /// is needed (SP 800-56A section 5.6.2.3.4).
  private static func isOnCurve(_ encoded: [UInt8]) throws(CryptographyError) -> Bool {
    guard let curve, let point = unsafe EC_POINT_new(curve.group) else {
      ERR_clear_error()
      throw .system(operation: "make a point")
    }
    defer { unsafe EC_POINT_free(point) }
    // The bytes are read within their count.
    guard unsafe EC_POINT_oct2point(curve.group, point, encoded, encoded.count, nil) == 1 else {
      ERR_clear_error()
      return false
    }
    return true
  }
}
