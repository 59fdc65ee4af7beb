import Cryptography
import LatchkeyModel
import LatchkeyProtos

extension IdentityHarness {
  /// A key's signature over a fresh challenge.
  func proof(
    by key: P256PrivateKey, for purpose: String, signedBy signer: P256PrivateKey? = nil, client: String = "app.test"
  ) async throws -> IdentityV1.KeyProof {
    let jwk = CommonV1.EcPublicJwk(
      kty: "EC", crv: "P-256", x: Base64URL.encode(key.publicKey.x), y: Base64URL.encode(key.publicKey.y))
    let challenge = try await guests.getChallenge(
      IdentityV1.GetChallengeRequest(clientID: client, deviceKey: jwk)
    ).challenge
    let message = Array([purpose, client, challenge].map { Array($0.utf8) }.joined(separator: [0]))
    return IdentityV1.KeyProof(
      publicKey: jwk, challenge: challenge, signature: try (signer ?? key).sign(message))
  }

  func link(
    _ identity: IdentityV1.LinkIdentityRequest.Identity, _ tokens: CommonV1.TokenSet?, password: String = ""
  ) async throws -> IdentityV1.LinkIdentityResponse {
    try await links.linkIdentity(
      IdentityV1.LinkIdentityRequest(identity: identity, password: password), options: .bearer(tokens))
  }

  func enrolKey(_ key: P256PrivateKey, _ tokens: CommonV1.TokenSet?) async throws -> IdentityV1.LinkIdentityResponse {
    let proof = try await proof(by: key, for: "latchkey-enrol-unlock-v1")
    return try await link(.deviceKey(IdentityV1.DeviceKeyEnrolment(proof: proof)), tokens)
  }

  func enrolPattern(
    _ pattern: String, on device: TestDevice, _ tokens: CommonV1.TokenSet?
  ) async throws -> IdentityV1.LinkIdentityResponse {
    let proof = try await proof(by: device.key, for: "latchkey-enrol-pattern-v1")
    return try await link(.pattern(IdentityV1.PatternEnrolment(proof: proof, pattern: pattern)), tokens)
  }
}
