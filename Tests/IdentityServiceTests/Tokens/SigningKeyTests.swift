import Cryptography
import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import TestSupport
import Testing

@testable import IdentityService

@Suite("Signing keys")
struct SigningKeyTests {
  private static let tokenLifetime: Duration = .seconds(960)

  private func published(_ harness: IdentityHarness) async throws -> [String] {
    let json = try await harness.auth.getJwks(IdentityV1.GetJwksRequest()).jwksJSON
    return try JSONWebKeySet(parsing: Array(json.utf8)).keys.map(\.id)
  }

  private func keyID(_ tokens: CommonV1.TokenSet?) throws -> String {
    let header = try (tokens?.accessToken.split(separator: ".").first).orThrow()
    let json = try JSONValue(parsing: try Base64URL.decode(header).orThrow())
    return try json["kid"]?.string.orThrow() ?? ""
  }

  @Test("Keys and secrets are made at the first start, for their owner only, and kept over a restart")
  func files() async throws {
    var harness = try await IdentityHarness()
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    let before = try await published(harness)
    #expect(before == [try keyID(tokens)])
    #expect(FileLook.mode(of: "\(harness.folder.path)/signing-keys") == 0o700)
    #expect(FileLook.mode(of: "\(harness.folder.path)/signing-keys/\(before[0]).pem") == 0o600)
    #expect(FileLook.mode(of: "\(harness.folder.path)/identity-secret") == 0o600)
    #expect(FileLook.mode(of: "\(harness.folder.path)/identity.db") == 0o600)
    harness = try await harness.restarted()
    #expect(try await published(harness) == before)
    #expect(try await harness.isActive(tokens.accessToken))
    _ = try await harness.refresh(tokens)
  }

  @Test("Rotation logs nobody out: the next key is published first, the last one stays until its tokens expired")
  func rotation() async throws {
    let harness = try await IdentityHarness()
    let ring = harness.core.tokens.keys
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    let old = try keyID(tokens)
    let new = try await ring.rotate().id
    #expect(try await published(harness) == [old, new])
    harness.clock.advance(by: Limits.signingKeyLead - .milliseconds(1))
    #expect(try keyID(try await harness.signIn("ada@example.com").tokens) == old)
    harness.clock.advance(by: .milliseconds(1))
    let last = try await harness.signIn("ada@example.com").tokens
    #expect(try keyID(last) == new)
    #expect(try await harness.isActive(tokens.accessToken))
    harness.clock.advance(by: Self.tokenLifetime - .milliseconds(1))
    try await ring.maintain()
    #expect(try await published(harness) == [old, new])
    harness.clock.advance(by: .milliseconds(1))
    try await ring.maintain()
    #expect(try await published(harness) == [new])
    #expect(FileLook.mode(of: "\(harness.folder.path)/signing-keys/\(old).pem") == 0)
    // The session outlives its key.
    _ = try await harness.refresh(tokens)
  }

  @Test("R55: however often keys are rotated few are kept, and the newest one signs when its time has come")
  func manyRotations() async throws {
    let harness = try await IdentityHarness()
    let ring = harness.core.tokens.keys
    var newest = ""
    for _ in 0..<100 {
      newest = try await ring.rotate().id
      harness.clock.advance(by: .seconds(1))
    }
    #expect(ring.published?.keys.count == 2 && ring.published?[newest] != nil)
    harness.clock.advance(by: Limits.signingKeyLead)
    #expect(try keyID(try await harness.register("ada@example.com").tokens) == newest)
    // Not so close together, as an operator in trouble might.
    for _ in 0..<200 {
      _ = try? await ring.rotate()
      harness.clock.advance(by: .seconds(20))
    }
    _ = try await harness.restarted()
  }

  @Test("R55: a refused rotation leaves nothing behind, and more keys than are ever made keep no service from starting")
  func tooManyKeys() async throws {
    let harness = try await IdentityHarness()
    let directory = SigningKeyDirectory(path: "\(harness.folder.path)/signing-keys")
    for _ in 0..<Limits.signingKeys { _ = try directory.create(notBefore: harness.clock.now()) }
    let before = try directory.load().count
    await #expect(throws: SigningKeyError.self) { try await harness.core.tokens.keys.rotate() }
    #expect(try directory.load().count == before)
    let restarted = try await harness.restarted()
    _ = try await restarted.register("ada@example.com")
  }

  @Test("The next key is made by age, in time to be known")
  func byAge() async throws {
    let harness = try await IdentityHarness()
    let ring = harness.core.tokens.keys
    harness.clock.advance(by: Limits.signingKeyPeriod - Limits.signingKeyLead - .milliseconds(1))
    try await ring.maintain()
    #expect(ring.published?.keys.count == 1)
    harness.clock.advance(by: .milliseconds(1))
    try await ring.maintain()
    #expect(ring.published?.keys.count == 2)
    try await ring.maintain()
    #expect(ring.published?.keys.count == 2)
  }

  @Test("A key that another process made is published without a restart")
  func otherProcess() async throws {
    let harness = try await IdentityHarness()
    let directory = SigningKeyDirectory(path: "\(harness.folder.path)/signing-keys")
    let made = try directory.create(notBefore: harness.clock.now() + .seconds(600))
    try await harness.core.tokens.keys.maintain()
    #expect(harness.core.tokens.keys.published?[made.entry.id] != nil)
  }

  @Test("A file that holds no key stops the start, and says which")
  func damaged() async throws {
    let harness = try await IdentityHarness()
    let path = "\(harness.folder.path)/signing-keys/broken.pem"
    try SecretFile.create(path, Array("nonsense".utf8))
    let error = await #expect(throws: SigningKeyError.self) { try await harness.core.tokens.keys.maintain() }
    #expect(error?.description.contains(path) == true)
    // The keys in memory go on working.
    _ = try await harness.register("ada@example.com")
  }

  @Test("R4, R5, R6: a token with any byte changed, or signed by another key, is refused")
  func forgeries() async throws {
    let harness = try await IdentityHarness()
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    let bytes = Array(tokens.accessToken.utf8)
    for index in stride(from: 0, to: bytes.count, by: 7) {
      var changed = bytes
      changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
      let forged = CommonV1.TokenSet(accessToken: String(decoding: changed, as: UTF8.self))
      await expectRefusal(.unauthenticated, "TOKEN_INVALID") { try await harness.logOut(forged) }
    }
    let claims = try harness.core.tokens.verify(tokens.accessToken, at: harness.clock.now())
    let foreign = try AccessTokenSigner(key: P256PrivateKey()).sign(claims)
    await expectRefusal(.unauthenticated, "TOKEN_INVALID") {
      try await harness.logOut(CommonV1.TokenSet(accessToken: foreign))
    }
  }

  @Test("R9: a token for other services is refused here")
  func audience() async throws {
    let harness = try await IdentityHarness()
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    var claims = try harness.core.tokens.verify(tokens.accessToken, at: harness.clock.now())
    claims.audience = ["latchkey-qr"]
    let elsewhere = try harness.core.tokens.keys.signer().sign(claims)
    await expectRefusal(.unauthenticated, "TOKEN_INVALID") {
      try await harness.logOut(CommonV1.TokenSet(accessToken: elsewhere))
    }
  }
}
