import CCrypto
import JSON
import LatchkeyModel

/// An RSA key of an OpenID provider: verifies RS256.
package struct RSAPublicKey: VerificationKey {
  private let key: Owner

  package var algorithm: SignatureAlgorithm { .rs256 }

  /// Owns the EVP_PKEY, which is not changed after it is made, so that threads may share it.
  @safe private final class Owner: @unchecked Sendable {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { unsafe self.pointer = pointer }

    deinit { unsafe EVP_PKEY_free(pointer) }
  }

  /// Reads a public JWK (RFC 7518 section 6.3.1). Errors: ``CryptographyError/invalidKey(_:)``, also for a modulus below
  /// 2048 bits (RFC 7518 section 3.3) or so long that each check of a signature would be an attack.
  package init(jwk: JSONValue) throws(CryptographyError) {
    guard jwk["kty"]?.string == "RSA" else { throw .invalidKey("kty must be RSA") }
    guard jwk["d"] == nil else { throw .invalidKey("a private key where a public one belongs") }
    guard let n = jwk["n"]?.string.flatMap({ Base64URL.decode($0) }),
      let e = jwk["e"]?.string.flatMap({ Base64URL.decode($0) })
    else { throw .invalidKey("n or e is not base64url") }
    let modulus = Array(n.drop { $0 == 0 })
    let exponent = Array(e.drop { $0 == 0 })
    guard Limits.rsaModulusBytes.contains(modulus.count), modulus[0] >= 0x80 || modulus.count > 256 else {
      throw .invalidKey("an RSA key must have 2048 to 4096 bits")
    }
    guard (1...4).contains(exponent.count), exponent[exponent.count - 1] & 1 == 1, exponent != [1] else {
      throw .invalidKey("the exponent must be odd, above 1 and of at most 32 bits")
    }
    // OpenSSL wants numbers in the machine's order, which is little-endian wherever this runs.
    key = try Self.make(Array(modulus.reversed()), Array(exponent.reversed()))
  }

  private static func make(_ modulus: [UInt8], _ exponent: [UInt8]) throws(CryptographyError) -> Owner {
    var (modulus, exponent) = (modulus, exponent)
    var made: OpaquePointer?
    // The parameters point into the arrays, which live until EVP_PKEY_fromdata has copied them; the context is freed
    // here and the key handed to its owner.
    let status = unsafe modulus.withUnsafeMutableBufferPointer { modulus -> Int32 in
      unsafe exponent.withUnsafeMutableBufferPointer { exponent -> Int32 in
        var parameters = unsafe [
          OSSL_PARAM_construct_BN(latchkey_param_rsa_n, modulus.baseAddress, modulus.count),
          OSSL_PARAM_construct_BN(latchkey_param_rsa_e, exponent.baseAddress, exponent.count),
          OSSL_PARAM_construct_end(),
        ]
        guard let context = unsafe EVP_PKEY_CTX_new_from_name(nil, "RSA", nil) else { return 0 }
        defer { unsafe EVP_PKEY_CTX_free(context) }
        guard unsafe EVP_PKEY_fromdata_init(context) == 1 else { return 0 }
        return unsafe EVP_PKEY_fromdata(context, &made, latchkey_evp_pkey_public_key, &parameters)
      }
    }
    guard status == 1, let made = unsafe made else {
      ERR_clear_error()
      throw .invalidKey("not an RSA key")
    }
    return unsafe Owner(made)
  }

  package func verify(signature: [UInt8], message: [UInt8]) -> Bool {
    guard let context = unsafe EVP_MD_CTX_new() else { return false }
    defer { unsafe EVP_MD_CTX_free(context) }
    // The default padding of an RSA key is PKCS #1 v1.5. The arrays are read within their counts.
    let status =
      unsafe EVP_DigestVerifyInit_ex(context, nil, "SHA256", nil, nil, key.pointer, nil) == 1
      && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    if !status { ERR_clear_error() }
    return status
  }
}
