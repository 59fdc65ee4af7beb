import JSON
import LatchkeyModel
import Testing

@testable import Cryptography

@Suite("Access tokens")
struct TokenTests {
  let key: P256PrivateKey
  let signer: AccessTokenSigner
  let verifier: AccessTokenVerifier
  let now = Timestamp(secondsSinceEpoch: 1_800_000_000)
  let claims: AccessTokenClaims

  init() throws {
    key = try P256PrivateKey()
    signer = AccessTokenSigner(key: key)
    verifier = AccessTokenVerifier(
      keys: JSONWebKeySet([key.publicKey]),
      issuer: "https://id.example",
      audience: "latchkey-qr"
    )
    claims = AccessTokenClaims(
      subject: "u_1",
      audience: ["latchkey-identity", "latchkey-qr"],
      issuer: "https://id.example",
      issuedAt: now,
      expiresAt: now + .seconds(900),
      tokenID: "t1",
      clientID: "app",
      scope: "read write",
      sessionID: "s1",
      authenticatedAt: now,
      authenticationMethods: ["pin", "pop"],
      isGuest: false,
      keyThumbprint: "abc"
    )
  }

  /// A token with any header and payload, truly signed: what a confused or hostile issuer could make.
  private func forge(header: JSONValue, payload: JSONValue) throws -> String {
    try CompactJWS.sign(header: header, payload: payload, with: key)
  }

  private var goodHeader: JSONValue { ["alg": "ES256", "kid": .string(signer.keyID), "typ": "at+jwt"] }

  private func refused(_ token: String, _ error: TokenError, sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(throws: error, sourceLocation: sourceLocation) { try verifier.verify(token, at: now) }
  }

  @Test("RFC 7515 appendix A.3 verifies with its key")
  func rfc7515() throws {
    let key = try P256PublicKey(
      jwkX: "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
      y: "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
    )
    let jws = try CompactJWS(
      parsing: "eyJhbGciOiJFUzI1NiJ9"
        + ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
        + ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    )
    let payload = try jws.verifiedPayload(with: key)
    #expect(payload == ["iss": "joe", "exp": 1_300_819_380, "http://example.com/is_root": true])
  }

  @Test("a token of ours holds and says what was signed, for one audience and for several")
  func roundTrip() throws {
    #expect(try verifier.verify(signer.sign(claims), at: now) == claims)
    var guest = claims
    guest.audience = ["latchkey-qr"]
    guest.authenticatedAt = nil
    guest.isGuest = true
    guest.keyThumbprint = nil
    #expect(try verifier.verify(signer.sign(guest), at: now) == guest)
  }

  @Test("R4: a token with any one byte changed is refused")
  func everyByte() throws {
    let token = Array(try signer.sign(claims).utf8)
    for index in token.indices {
      for change: UInt8 in [1, 2, 0x20, 0x80] {
        var other = token
        other[index] ^= change
        let text = String(decoding: other, as: UTF8.self)
        #expect(throws: TokenError.self) { try verifier.verify(text, at: now) }
      }
      for replacement in ["A", "_", ".", "="] where UInt8(ascii: replacement.unicodeScalars.first!) != token[index] {
        var other = token
        other[index] = Array(replacement.utf8)[0]
        #expect(throws: TokenError.self) { try verifier.verify(String(decoding: other, as: UTF8.self), at: now) }
      }
    }
    for length in 0..<token.count {
      #expect(throws: TokenError.self) {
        try verifier.verify(String(decoding: token[..<length], as: UTF8.self), at: now)
      }
    }
  }

  @Test("R5: none, HS256 with the public key as its secret, and every other algorithm are refused")
  func algorithms() throws {
    let payload = claims.json
    for algorithm in [
      "none", "None", "NONE", "HS256", "HS512", "RS256", "PS256", "ES384", "ES256K", "EdDSA", "es256", "",
    ] {
      let header: JSONValue = ["alg": .string(algorithm), "kid": .string(signer.keyID), "typ": "at+jwt"]
      try refused(forge(header: header, payload: payload), .unacceptableHeader("alg"))
      let input = "\(Base64URL.encode(header.encoded())).\(Base64URL.encode(payload.encoded()))"
      refused("\(input).", .malformed)
      for secret in [key.publicKey.x + key.publicKey.y, Array(key.publicKey.thumbprint.utf8)] {
        let code = HMACSHA256.authenticate(Array(input.utf8), key: secret)
        refused("\(input).\(Base64URL.encode(code))", .malformed)
        refused("\(input).\(Base64URL.encode(code + code))", .unacceptableHeader("alg"))
      }
    }
    try refused(
      forge(header: ["kid": .string(signer.keyID), "typ": "at+jwt"], payload: payload),
      .unacceptableHeader("alg")
    )
  }

  @Test("R6: only configured keys count, whatever the header offers")
  func headerKeys() throws {
    let other = try P256PrivateKey()
    let token = try CompactJWS.sign(
      header: ["alg": "ES256", "kid": "other", "typ": "at+jwt"],
      payload: claims.json,
      with: other
    )
    refused(token, .unknownKey("other"))
    // What is over by its own word is not held up by a key that nobody has any more.
    var old = claims
    old.expiresAt = now - .seconds(3600)
    refused(
      try CompactJWS.sign(header: ["alg": "ES256", "kid": "other", "typ": "at+jwt"], payload: old.json, with: other),
      .expired)
    refused(
      try CompactJWS.sign(header: goodHeader, payload: claims.json, with: other),
      .badSignature
    )
    for (name, value): (String, JSONValue) in [
      ("jwk", other.publicKey.jwk(id: "other")), ("jku", "https://evil.example/jwks"),
      ("x5u", "https://evil.example/x"), ("x5c", ["AAAA"]), ("x5t", "AA"), ("x5t#S256", "AA"), ("crit", ["exp"]),
      ("b64", false), ("zip", "DEF"),
    ] {
      let header = JSONValue.object(goodHeader.members! + [.init(name, value)])
      refused(try CompactJWS.sign(header: header, payload: claims.json, with: other), .unacceptableHeader(name))
      try refused(forge(header: header, payload: claims.json), .unacceptableHeader(name))
    }
    try refused(
      forge(header: ["alg": "ES256", "typ": "at+jwt"], payload: claims.json),
      .unacceptableHeader("kid")
    )
  }

  @Test("R7: expiry and start are enforced to the second, with a skew of at most 60 s")
  func times() throws {
    let token = try signer.sign(claims)
    let skew = verifier.clockSkew
    #expect(skew <= .seconds(60))
    let end = claims.expiresAt + skew
    #expect(throws: Never.self) { try verifier.verify(token, at: end - .seconds(1)) }
    #expect(throws: TokenError.expired) { try verifier.verify(token, at: end) }
    #expect(throws: TokenError.expired) { try verifier.verify(token, at: end + .seconds(1)) }
    let start = claims.notBefore - skew
    #expect(throws: TokenError.notYetValid) { try verifier.verify(token, at: start - .seconds(1)) }
    #expect(throws: Never.self) { try verifier.verify(token, at: start) }
    #expect(throws: Never.self) { try verifier.verify(token, at: start + .seconds(1)) }
    let strict = AccessTokenVerifier(
      keys: verifier.keys,
      issuer: verifier.issuer,
      audience: verifier.audience,
      clockSkew: .zero
    )
    #expect(throws: TokenError.expired) { try strict.verify(token, at: claims.expiresAt) }
    #expect(throws: Never.self) { try strict.verify(token, at: claims.expiresAt - .seconds(1)) }
  }

  @Test("R8: another kind of token is refused, by its header and by its token_use")
  func types() throws {
    for type: JSONValue in ["JWT", "refresh+jwt", "dpop+jwt", "qr+jwt", "service+jwt", "", 1, .null] {
      let header: JSONValue = ["alg": "ES256", "kid": .string(signer.keyID), "typ": type]
      try refused(forge(header: header, payload: claims.json), .wrongType)
    }
    try refused(forge(header: ["alg": "ES256", "kid": .string(signer.keyID)], payload: claims.json), .wrongType)
    for use: JSONValue? in ["refresh", "qr", "service", "id", true, nil] {
      let members = claims.json.members!.filter { $0.name != "token_use" }
      let payload = JSONValue.object(members + (use.map { [.init("token_use", $0)] } ?? []))
      try refused(forge(header: goodHeader, payload: payload), .wrongType)
    }
    let header: JSONValue = ["alg": "ES256", "kid": .string(signer.keyID), "typ": "application/AT+JWT"]
    #expect(try verifier.verify(forge(header: header, payload: claims.json), at: now) == claims)
  }

  @Test("R9: a token for another audience or from another issuer is refused")
  func audience() throws {
    for audience in [["latchkey-identity"], ["latchkey-qr2"], ["LATCHKEY-QR"], [], ["a", "b"]] {
      var other = claims
      other.audience = audience
      try refused(signer.sign(other), .wrongAudience)
    }
    var other = claims
    other.issuer = "https://id.example/"
    try refused(signer.sign(other), .wrongIssuer)
  }

  @Test("a claim that is missing or of another form is refused by name")
  func claimForms() throws {
    let required = ["sub", "iss", "aud", "exp", "iat", "jti", "client_id", "scope", "sid", "is_guest"]
    for name in required {
      for value: JSONValue? in [nil, .null, [:], .number(-1)] {
        let members = claims.json.members!.filter { $0.name != name }
        let payload = JSONValue.object(members + (value.map { [.init(name, $0)] } ?? []))
        try refused(forge(header: goodHeader, payload: payload), .badClaim(name))
      }
    }
    for (name, value): (String, JSONValue) in [
      ("exp", .integer(.max)), ("exp", .number(1e300)), ("exp", "1800000900"), ("aud", [1]), ("nbf", "0"),
      ("auth_time", -5), ("cnf", "abc"), ("cnf", [:]), ("cnf", ["x5t#S256": "abc"]), ("cnf", ["jkt": "a", "kid": "b"]),
    ] {
      let payload = JSONValue.object(claims.json.members!.filter { $0.name != name } + [.init(name, value)])
      try refused(forge(header: goodHeader, payload: payload), .badClaim(name))
    }
  }

  @Test("text that is no token is refused without reading far")
  func malformed() {
    for text in [
      "", ".", "..", "...", "a.b.c", "e30.e30.", "e30.e30.AAAA", "....", String(repeating: "A", count: 9000),
    ] {
      refused(text, .malformed)
    }
  }
}
