import Cryptography
import GRPC
import Glibc
import LatchkeyModel
import LatchkeyProtos
import TestSupport
import Testing

@testable import IdentityService

/// What every way to sign in owes, run over the list of them.
@Suite("Every way to sign in")
struct LoginMethodConformanceTests {
  @Test("P1, P7, G20: it signs in, on the same device again and again", arguments: MethodBench.methods)
  func signsIn(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    for _ in 0..<3 {
      let answer = try await bench.harness.authenticate(try await bench.credentials.right())
      #expect(answer.subject?.sub == bench.subject)
      #expect(answer.profile?.name == "Ada" && answer.profile?.locale == "en")
      let tokens = try answer.tokens.orThrow()
      #expect(try await bench.harness.isActive(tokens.accessToken))
      let session = try await bench.harness.core.session(try SessionID(tokens.sid).orThrow())
      #expect(session?.method == method)
    }
  }

  @Test("R25: an unknown account and a wrong secret are answered alike", arguments: MethodBench.methods)
  func alike(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    for _ in 0..<4 {
      // Past any wait that a wrong one brought about.
      bench.harness.clock.advance(by: .seconds(400))
      let wrong = try await bench.credentials.wrong()
      let unknown = try await bench.credentials.unknown()
      let first = await expectRefusal(.unauthenticated) { try await bench.harness.authenticate(wrong) }
      let second = await expectRefusal(.unauthenticated) { try await bench.harness.authenticate(unknown) }
      #expect(first == second)
      #expect(first?.details.retryAfter == nil)
    }
  }

  @Test("R25: an unknown account takes as long as a wrong secret", arguments: MethodBench.methods)
  func asLong(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method, hashing: Argon2Parameters(memoryKiB: 8192, passes: 2, lanes: 1))
    var times: (wrong: [Duration], unknown: [Duration]) = ([], [])
    for _ in 0..<5 {
      bench.harness.clock.advance(by: .seconds(400))
      let wrong = try await bench.credentials.wrong()
      let unknown = try await bench.credentials.unknown()
      times.wrong.append(
        await processorTime {
          await expectRefusal(.unauthenticated) { try await bench.harness.authenticate(wrong) }
        }
      )
      times.unknown.append(
        await processorTime {
          await expectRefusal(.unauthenticated) { try await bench.harness.authenticate(unknown) }
        }
      )
    }
    let (wrong, unknown) = (times.wrong.sorted()[2], times.unknown.sorted()[2])
    // A hash, where there is one, takes ten times as long as all the rest. Two calls without one may differ by what the
    // machine does besides.
    let slack = Duration.milliseconds(5)
    #expect(wrong < unknown * 3 + slack && unknown < wrong * 3 + slack, "\(wrong) and \(unknown)")
  }

  /// What the process computed meanwhile, on all its threads: what else the machine does takes no part in it.
  private func processorTime(_ work: () async -> Void) async -> Duration {
    func now() -> Duration {
      var time = timespec()
      // The clock is there in every process, and writes nothing but the time.
      unsafe clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
      return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
    let start = now()
    await work()
    return now() - start
  }

  @Test("R24: guesses at one account are told to wait, unknown ones too", arguments: MethodBench.methods)
  func throttled(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    guard bench.credentials.isGuessable else { return }
    for present in [bench.credentials.wrong, bench.credentials.unknown] {
      var refusal: RPCError?
      for _ in 0..<12 where refusal == nil {
        let credential = try await present()
        do {
          _ = try await bench.harness.authenticate(credential)
          Issue.record("a wrong secret signed in")
        } catch let error as RPCError where error.code == .resourceExhausted {
          refusal = error
        } catch {}
      }
      #expect(refusal?.details.reason == "TOO_MANY_ATTEMPTS")
      #expect(refusal?.details.retryAfter != nil)
    }
  }

  @Test("R24: who waits may try again, and signs in with what is right", arguments: MethodBench.methods)
  func afterTheWait(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    for _ in 0..<5 {
      let credential = try await bench.credentials.wrong()
      _ = try? await bench.harness.authenticate(credential)
    }
    bench.harness.clock.advance(by: .seconds(301))
    #expect(try await bench.harness.authenticate(try await bench.credentials.right()).subject?.sub == bench.subject)
  }

  @Test("G23, R26: a network that signs in too often does work for more", arguments: MethodBench.methods)
  func work(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method, signInsPerHour: 2)
    for _ in 0..<2 { _ = try await bench.harness.authenticate(try await bench.credentials.right()) }
    // The method's own credential may need a while, in which some of the count is earned back: spend that too.
    var spent = try await bench.credentials.right()
    var refusal: RPCError?
    for _ in 0..<4 where refusal == nil {
      do {
        _ = try await bench.harness.authenticate(spent)
        spent = try await bench.credentials.right()
      } catch let error as RPCError where error.details.reason == "CHALLENGE_REQUIRED" {
        refusal = error
      }
    }
    #expect(refusal?.code == .failedPrecondition)
    let info = try (refusal?.details.info).orThrow()
    let challenge = try info.first { $0.key == "challenge" }.orThrow().value
    let bits = try Int(info.first { $0.key == "pow_bits" }.orThrow().value).orThrow()
    let solution = Self.solution(of: challenge, bits: bits)
    // Work done for one request is none for another.
    let other = try await bench.credentials.wrong()
    await expectRefusal(.failedPrecondition, "CHALLENGE_REQUIRED") {
      try await bench.harness.authenticate(other, challenge: challenge, solution: solution)
    }
    let answer = try await bench.harness.authenticate(spent, challenge: challenge, solution: solution)
    #expect(answer.subject?.sub == bench.subject)
  }

  @Test("G24: asked for twice with one idempotency key, it begins one session", arguments: MethodBench.methods)
  func onceByKey(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    let credential = try await bench.credentials.right()
    let first = try await bench.harness.authenticate(credential, key: "tap")
    let again = try await bench.harness.authenticate(credential, key: "tap")
    #expect(first.tokens?.sid == again.tokens?.sid)
    #expect(try await bench.harness.isActive(again.tokens.orThrow().accessToken))
  }

  @Test("R23: what holds once holds once, however many present it at the same time", arguments: MethodBench.methods)
  func oneTime(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    guard bench.credentials.isOneTime else { return }
    let credential = try await bench.credentials.right()
    let signedIn = await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<8 { group.addTask { (try? await bench.harness.authenticate(credential)) != nil } }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(signedIn == 1)
    await #expect(throws: RPCError.self) { try await bench.harness.authenticate(credential) }
  }

  @Test(
    "G20, R52: a conflict's ticket takes the place of what was presented, and merges", arguments: MethodBench.methods)
  func conflict(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    let guest = try await bench.guest()
    let credential = try await bench.credentials.right()
    let conflict = try await bench.harness.authenticate(credential, guest: guest).conflict
    #expect(conflict?.existingMask == bench.credentials.mask)
    #expect(conflict?.choices == [.merge, .switch])
    #expect(try await bench.harness.isActive(guest.accessToken))
    // The ticket took the place of what holds once.
    if [.otp, .pattern, .deviceKey, .oidc].contains(method) {
      await #expect(throws: RPCError.self) { try await bench.harness.authenticate(credential, guest: guest) }
    }
    bench.harness.clock.advance(by: .seconds(61))
    let next = method == .qr ? credential : try await bench.credentials.right()
    let second = try await bench.harness.authenticate(next, guest: guest).conflict
    await expectRefusal(.failedPrecondition, "LINK_TICKET_INVALID") {
      try await bench.redeem(conflict, .merge, guest: guest)
    }
    let merged = try await bench.redeem(second, .merge, guest: guest)
    #expect(merged.subject?.sub == bench.subject)
    #expect(merged.accountChange?.migrationID == "migration-1")
    let session = try await bench.harness.core.session(
      try SessionID(merged.tokens.orThrow().sid).orThrow()
    )
    #expect(session?.method == method)
    #expect(session?.scope == (method == .qr ? .screen : .account))
  }

  @Test("G20: with SWITCH it leaves the guest's data with the guest, in one call", arguments: MethodBench.methods)
  func switches(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    let guest = try await bench.guest()
    let answer = try await bench.harness.authenticate(
      try await bench.credentials.right(),
      guest: guest,
      onConflict: .switch
    )
    #expect(answer.subject?.sub == bench.subject)
    #expect(answer.accountChange?.previousSub.isEmpty == false)
    #expect(try await !bench.harness.isActive(guest.accessToken))
    #expect(bench.migrator.state.withLock { $0.plans.isEmpty })
  }

  @Test("R42: who signed in by it and who failed to is on record", arguments: MethodBench.methods)
  func audited(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    _ = try await bench.harness.authenticate(try await bench.credentials.right())
    let wrong = try await bench.credentials.wrong()
    await expectRefusal(.unauthenticated) { try await bench.harness.authenticate(wrong) }
    await bench.harness.core.refusals.flush()
    let events = try await bench.harness.audit.listAuditEvents(
      IdentityV1.ListAuditEventsRequest(limit: 1000),
      options: .service
    ).events
    #expect(events.contains { $0.kind == "session_began" && $0.detail == "\(method.rawValue) app.test" })
    #expect(
      events.contains {
        $0.kind == "call_refused" && $0.detail.hasPrefix("/latchkey.identity.v1.AuthService/Authenticate")
      }
    )
  }

  @Test("R2: its secret is nowhere in the database", arguments: MethodBench.methods)
  func atRest(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    _ = try await bench.harness.authenticate(try await bench.credentials.right())
    for name in ["identity.db", "identity.db-wal"] {
      let text = String(decoding: FileLook.contents(of: "\(bench.harness.folder.path)/\(name)"), as: UTF8.self)
      #expect(!text.isEmpty)
      for secret in bench.credentials.secrets() { #expect(text.firstRange(of: secret) == nil) }
    }
  }

  @Test("R12: a new session on a device ends the one before", arguments: MethodBench.methods)
  func replaces(_ method: SignInMethod) async throws {
    let bench = try await MethodBench(method)
    let guest = try await bench.guest()
    _ = try await bench.harness.authenticate(try await bench.credentials.right(), guest: guest, onConflict: .switch)
    #expect(try await !bench.harness.isActive(bench.tokens.accessToken))
  }

  static func solution(of challenge: String, bits: Int) -> [UInt8] {
    var counter: UInt32 = 0
    while true {
      let solution = (0..<4).map { UInt8(truncatingIfNeeded: counter >> ($0 * 8)) }
      if ProofOfWork.leadingZeroBits(SHA256Hash.hash(Array(challenge.utf8) + solution)) >= bits { return solution }
      counter += 1
    }
  }
}
