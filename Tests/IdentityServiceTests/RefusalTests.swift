import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import Synchronization
import TestSupport
import Testing

@testable import IdentityService

/// What refusals tell an app so that it can help: whether to come back, when, and where to go instead.
@Suite("Refusals")
struct RefusalTests {
  @Test("D9: while the storage is away every call says that it may succeed later, and when to ask again")
  func unavailable() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let request = try device.issueRequest(try await harness.challenge(for: device))
    await harness.database.close()
    let error = await expectRefusal(.unavailable) { try await harness.guests.issueGuest(request) }
    #expect(error?.details.retryAfter == .seconds(1))
    let other = await expectRefusal(.unavailable) { try await harness.register("ada@example.com") }
    #expect(other?.details.retryAfter == .seconds(1))
  }

  @Test("D9: with more sign-ins than can be looked at, the ones too many are told to come back")
  func overloaded() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    harness.core.passwords.stop()
    let error = await expectRefusal(.unavailable) { try await harness.signIn("ada@example.com") }
    #expect(error?.details.retryAfter == .seconds(1))
  }

  @Test("R24: a sign-in that nobody looked at, for want of room or because the caller left, is no failed try")
  func notMade() async throws {
    let hashers = WorkerThreads(threads: 1, capacity: 2)
    let harness = try await IdentityHarness(hashers: hashers)
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    let tokens = try await harness.register("ada@example.com", guest: guest.tokens).tokens.orThrow()
    _ = try await harness.enrolPattern("1234", on: device, tokens)
    @Sendable func unlock() async throws {
      let proof = try await harness.proof(by: device.key, for: "latchkey-pattern-v1")
      _ = try await harness.authenticate(.pattern(IdentityV1.PatternCredential(proof: proof, pattern: "1234")))
    }
    let gate = ThreadGate()
    _ = hashers.submit { gate.wait() }
    while hashers.waiting > 0 { await Task.yield() }
    func leave(_ caller: Task<Void, any Error>) async {
      for _ in 0..<1_000_000 where hashers.waiting == 0 { await Task.yield() }
      caller.cancel()
      await #expect(throws: (any Error).self) { try await caller.value }
      // The caller hears of it before the call's work does.
      while hashers.taken > 0 { await Task.yield() }
    }
    for _ in 0..<12 {
      await leave(Task { _ = try await harness.signIn("ada@example.com") })
      await leave(Task { try await unlock() })
    }
    for _ in 0..<2 { _ = hashers.submit {} }
    for _ in 0..<12 {
      let error = await expectRefusal(.resourceExhausted, "OVERLOADED") { try await harness.signIn("ada@example.com") }
      #expect(error?.details.retryAfter == .seconds(2))
      await expectRefusal(.resourceExhausted, "OVERLOADED") { try await unlock() }
    }
    gate.open()
    while hashers.waiting > 0 { await Task.yield() }
    _ = try await harness.signIn("ada@example.com")
    try await unlock()
  }

  @Test("D9: tries that wait to be counted, and may be told to wait, take no place of one that is made")
  func places() async throws {
    let hashers = WorkerThreads(threads: 1, capacity: 4)
    let harness = try await IdentityHarness(hashers: hashers)
    let tokens = try await harness.register("ada@example.com").tokens.orThrow()
    let gate = ThreadGate()
    let isWriting = Mutex(false)
    async let writing: Void = harness.database.write { _ throws(StorageError) in
      isWriting.withLock { $0 = true }
      gate.wait()
    }
    while !isWriting.withLock({ $0 }) { await Task.yield() }
    let reads = harness.database.statistics.reads
    let tries = (0..<12).map { number in
      Task {
        if number % 2 == 0 {
          _ = try await harness.signIn("ada@example.com", password: "a guess")
        } else {
          _ = try await harness.accounts.changePassword(
            IdentityV1.ChangePasswordRequest(password: "a guess", newPassword: "a better horse battery"),
            options: .bearer(tokens))
        }
      }
    }
    // Each looks for its account, then waits for the store to count it.
    while harness.database.statistics.reads < reads + 12 { await Task.yield() }
    var taken = 0
    for _ in 0..<10_000 {
      taken = max(taken, hashers.taken)
      await Task.yield()
    }
    #expect(taken == 0)
    gate.open()
    try await writing
    for one in tries { await #expect(throws: RPCError.self) { try await one.value } }
    // Wrong tries that were looked at make the next wait.
    harness.clock.advance(by: .seconds(600))
    _ = try await harness.signIn("ada@example.com")
  }

  @Test("R24: a sign-in that could not be looked at by its deadline is told to come back, and is no failed try")
  func late() async throws {
    let ahead = Mutex(Duration.zero)
    let hashers = WorkerThreads(threads: 1, capacity: 8) { .now + ahead.withLock { $0 } }
    let harness = try await IdentityHarness(hashers: hashers)
    _ = try await harness.register("ada@example.com")
    // By the threads' clock the time of the calls below is over, by nobody else's.
    ahead.withLock { $0 = .seconds(3600) }
    for _ in 0..<12 {
      let error = await expectRefusal(.resourceExhausted, "OVERLOADED") { try await harness.signIn("ada@example.com") }
      #expect(error?.details.retryAfter != nil)
    }
    ahead.withLock { $0 = .zero }
    _ = try await harness.signIn("ada@example.com")
  }

  @Test("P15: an app that is too old is told where to get a newer one, and a network where the companion app is")
  func links() async throws {
    let folder = try TemporaryFolder()
    let document = """
      {"version": 2, "updates": [{"minimum": "2.0", "url": "https://get.test"}],
       "networks": {"permit": ["10.0.0.0/8"], "companion": {"scheme": "vpn://open", "download": "https://vpn.test"}}}
      """
    try SecretFile.replace("\(folder.path)/policies.json", Array(document.utf8))
    let harness = try await IdentityHarness(folder: folder)
    let error = await expectRefusal(.failedPrecondition, "UPGRADE_REQUIRED") {
      try await harness.auth.authenticate(
        IdentityV1.AuthenticateRequest(clientID: "app.test"),
        options: CallOptions(metadata: ["x-app-version": "1.9"]))
    }
    #expect(error?.details.info.contains(RPCError.KeyValue("update_url", "https://get.test")) == true)
    let access = try await harness.access.checkAccess(IdentityV1.CheckAccessRequest(clientID: "app.test"))
    #expect(access.access == .networkNotPermitted)
    #expect(access.companionApp?.schemeURL == "vpn://open" && access.companionApp?.downloadURL == "https://vpn.test")
  }

  @Test("P15: a session that has ended says so by a reason, and an unknown token by another")
  func reasons() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com").tokens
    _ = try await harness.logOut(account)
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.logOut(account) }
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.refresh(account) }
    harness.clock.advance(by: .seconds(961))
    let other = try await harness.signIn("ada@example.com").tokens
    harness.clock.advance(by: .seconds(961))
    await expectRefusal(.unauthenticated, "TOKEN_EXPIRED") { try await harness.logOut(other) }
  }
}
