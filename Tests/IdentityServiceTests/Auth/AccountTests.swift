import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import TestSupport
import Testing

@testable import IdentityService

@Suite("Accounts by password")
struct AccountTests {
  @Test("Registering without a guest makes an account that can sign in")
  func register() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("Ada@Example.com")
    #expect(account.subject?.isGuest == false)
    #expect(account.profile?.name == "Ada")
    #expect(account.profile?.locale == "en")
    #expect(account.tokens?.scope == "basic profile account")
    let signedIn = try await harness.signIn("ADA@example.COM")
    #expect(signedIn.subject?.sub == account.subject?.sub)
    #expect(signedIn.profile?.name == "Ada")
    #expect(signedIn.conflict == nil)
  }

  @Test("A guest whose identity is new is promoted in place: its sub stays, its session is replaced")
  func promotion() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    #expect(account.subject?.sub == guest.subject?.sub)
    #expect(account.subject?.isGuest == false)
    #expect(account.accountChange?.promoted == true)
    #expect(account.accountChange?.previousSub == guest.subject?.sub)
    #expect(account.accountChange?.wipeRequired == false)
    #expect(account.tokens?.sid != guest.tokens?.sid)
  }

  @Test("R12: after promotion and after a new sign-in the tokens before it are refused at once")
  func rotation() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    #expect(try await !harness.isActive(try guest.tokens.orThrow().accessToken))
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.refresh(guest.tokens) }
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.logOut(guest.tokens) }
    let next = try await harness.issueGuest(device)
    _ = try await harness.signIn("ada@example.com", guest: next.tokens, onConflict: .switch)
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.refresh(account.tokens) }
  }

  @Test("An identifier leads to one account: the second registration is told IDENTITY_IN_USE and its guest stays one")
  func taken() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let guest = try await harness.issueGuest(try TestDevice())
    await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") {
      try await harness.register("ada@EXAMPLE.com", guest: guest.tokens)
    }
    #expect(try await harness.isActive(try guest.tokens.orThrow().accessToken))
  }

  @Test("Of twenty guests that register one identifier at once exactly one is promoted")
  func concurrentIdentifier() async throws {
    let harness = try await IdentityHarness()
    var guests: [CommonV1.TokenSet?] = []
    for _ in 0..<20 { guests.append(try await harness.issueGuest(try TestDevice()).tokens) }
    let tokens = guests
    let succeeded = await successes(20, refusedWith: "IDENTITY_IN_USE") { index in
      _ = try await harness.register("ada@example.com", guest: tokens[index])
    }
    #expect(succeeded == 1)
  }

  @Test("A guest is promoted once, however many registrations race for it")
  func concurrentPromotion() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice()).tokens
    let succeeded = await successes(10, refusedWith: "SESSION_REVOKED") { index in
      _ = try await harness.register("ada\(index)@example.com", guest: guest)
    }
    #expect(succeeded == 1)
  }

  @Test("R25: an unknown account and a wrong password are refused in the same words")
  func sameWords() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let wrong = await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await harness.signIn("ada@example.com", password: "not the password")
    }
    let unknown = await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await harness.signIn("nobody@example.com", password: "not the password")
    }
    #expect(wrong == unknown)
  }

  @Test("R25: an unknown account takes as long as a wrong password")
  func sameTime() async throws {
    let harness = try await IdentityHarness(hashing: Argon2Parameters(memoryKiB: 4096, passes: 2, lanes: 1))
    _ = try await harness.register("ada@example.com")
    let clock = ContinuousClock()
    var wrong: [Duration] = []
    var unknown: [Duration] = []
    var ratio = Double.infinity
    // Until each was undisturbed once, by other work on the machine. Without the dummy hash the ratio stays near 5.
    for _ in 0..<40 where !(0.5...2).contains(ratio) {
      for _ in 0..<5 {
        wrong.append(await clock.measure { _ = try? await harness.signIn("ada@example.com", password: "wrong one") })
        unknown.append(await clock.measure { _ = try? await harness.signIn("bob@example.com", password: "wrong one") })
        // By then the wrong password is forgotten.
        harness.clock.advance(by: .seconds(10_000))
      }
      ratio = try wrong.min().orThrow() / unknown.min().orThrow()
    }
    #expect((0.5...2).contains(ratio), "wrong/unknown \(ratio)")
  }

  @Test("A password hashed at a lower cost is hashed anew when its owner signs in")
  func rehash() async throws {
    let weak = try await IdentityHarness()
    _ = try await weak.register("ada@example.com")
    let identifier = try AccountIdentifier("ada@example.com").orThrow()
    let before = try await weak.core.look(FindAccount(for: identifier))?.passwordHash
    await weak.database.close()
    let strong = try await IdentityHarness(
      folder: weak.folder, clock: weak.clock, hashing: Argon2Parameters(memoryKiB: 128, passes: 2, lanes: 1))
    await expectRefusal(.unauthenticated) { try await strong.signIn("ada@example.com", password: "wrong one") }
    #expect(try await strong.core.look(FindAccount(for: identifier))?.passwordHash == before)
    _ = try await strong.signIn("ada@example.com")
    let after = try await strong.core.look(FindAccount(for: identifier))?.passwordHash
    #expect(before?.contains("m=64,t=1") == true)
    #expect(after?.contains("m=128,t=2") == true)
    _ = try await strong.signIn("ada@example.com")
  }

  @Test(
    "G22: every invalid field of a registration is named by its path",
    arguments: [
      ("client_id", "client_id"), ("identifier", "password.identifier"), ("short", "password.password"),
      ("nickname", "nickname"), ("locale", "locale"), ("missing", "password"), ("account token", "guest_token"),
    ])
  func invalidFields(fault: String, field: String) async throws {
    let harness = try await IdentityHarness()
    var request = IdentityV1.RegisterRequest(
      clientID: "app.test",
      password: IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password))
    switch fault {
    case "client_id": request.clientID = ""
    case "identifier": request.password?.identifier = "not an identifier"
    case "short": request.password?.password = "1234567"
    case "nickname": request.nickname = "12345678901"
    case "locale": request.locale = "x"
    case "missing": request.password = nil
    default: request.guestToken = try await harness.register("bob@example.com").tokens.orThrow().accessToken
    }
    let invalid = request
    await expectRefusal(.invalidArgument, field: field) { try await harness.auth.register(invalid) }
  }

  @Test("P8: a device that another account used before is told to wipe first")
  func wipe() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    _ = try await harness.register("ada@example.com", guest: try await harness.issueGuest(device).tokens)
    let next = try await harness.issueGuest(device)
    let bob = try await harness.register("bob@example.com", guest: next.tokens)
    #expect(bob.accountChange?.wipeRequired == true)
    let third = try await harness.issueGuest(device)
    let again = try await harness.signIn("bob@example.com", guest: third.tokens, onConflict: .switch)
    #expect(again.accountChange?.wipeRequired == false)
  }

  @Test("R2: no token, ticket, challenge or password is in any file that the service wrote")
  func nothingRaw() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    var secrets = [IdentityHarness.password]
    func keep(_ tokens: CommonV1.TokenSet?) throws {
      let tokens = try tokens.orThrow()
      secrets += [tokens.accessToken, String(tokens.accessToken.split(separator: ".")[2]), tokens.refreshToken]
      secrets.append(String(tokens.refreshToken.suffix(43)))
    }
    let challenge = try await harness.challenge(for: device)
    secrets.append(challenge)
    let guest = try await harness.guests.issueGuest(device.issueRequest(challenge))
    try keep(guest.tokens)
    try keep(try await harness.register("ada@example.com", guest: guest.tokens).tokens)
    let second = try await harness.issueGuest(device)
    try keep(second.tokens)
    let conflict = try await harness.signIn("ada@example.com", guest: second.tokens).conflict
    secrets.append(try conflict.orThrow().linkTicket)
    var tokens = try await harness.signIn("ada@example.com").tokens
    for _ in 0..<3 {
      tokens = try await harness.refresh(tokens)
      try keep(tokens)
    }
    let files = ["identity.db", "identity.db-wal", "identity.db-shm"].map { "\(harness.folder.path)/\($0)" }
    let written = files.map(FileLook.contents(of:))
    #expect(written[1].count > 10_000)
    for secret in secrets {
      for form in [Array(secret.utf8), Base64URL.decode(secret) ?? Array(secret.utf8)] {
        for bytes in written { #expect(!contains(bytes, form), "\(secret.prefix(12))… is on disk") }
      }
    }
  }

  private func contains(_ haystack: [UInt8], _ needle: [UInt8]) -> Bool {
    guard let first = needle.first else { return false }
    var start = 0
    while let index = haystack[start...].firstIndex(of: first) {
      if haystack[index...].starts(with: needle) { return true }
      start = index + 1
    }
    return false
  }
}
