import Callers
import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Admission")
struct AdmissionTests {
  private let now = Timestamp(secondsSinceEpoch: 1_800_000_000)

  private func peer(_ address: String) -> Peer { Peer(address: address, port: 1) }

  @Test("R26: sixty challenges an hour are free for a network, then work is asked for, and grows; nobody is refused")
  func work() {
    let admission = GuestAdmission(perHour: 60)
    for _ in 0..<60 { #expect(admission.workBits(for: peer("192.0.2.1"), at: now) == 0) }
    #expect(admission.workBits(for: peer("192.0.2.1"), at: now) == 16)
    #expect(admission.workBits(for: peer("192.0.2.1"), at: now) == 17)
    for _ in 0..<1000 { _ = admission.workBits(for: peer("192.0.2.1"), at: now) }
    #expect((16...22).contains(admission.workBits(for: peer("192.0.2.1"), at: now)))
    #expect(admission.workBits(for: peer("192.0.2.2"), at: now) == 0)
    #expect(admission.workBits(for: peer("192.0.2.1"), at: now + .seconds(3 * 3600)) == 0)
  }

  @Test("R53: this machine is counted as any other, unless a network is exempt by configuration")
  func exemptNetworks() throws {
    let admission = GuestAdmission(perHour: 1)
    #expect(admission.workBits(for: peer("127.0.0.1"), at: now) == 0)
    #expect(admission.workBits(for: peer("127.0.0.1"), at: now) == 16)
    let exempting = GuestAdmission(perHour: 1, exempt: [try #require(NetworkRange("127.0.0.0/8"))])
    for _ in 0..<5 { #expect(exempting.workBits(for: peer("::ffff:127.0.0.1"), at: now) == 0) }
    #expect(exempting.workBits(for: peer("::1"), at: now) == 0)
    #expect(exempting.workBits(for: peer("::1"), at: now) == 16)
  }

  @Test("R26: an IPv6 subscriber is one /64, and what has no address is not counted")
  func networks() {
    let admission = GuestAdmission(perHour: 1)
    #expect(admission.workBits(for: peer("2001:db8:0:1::1"), at: now) == 0)
    #expect(admission.workBits(for: peer("2001:db8:0:1:ffff::2"), at: now) == 16)
    #expect(admission.workBits(for: peer("2001:db8:0:2::1"), at: now) == 0)
    #expect(admission.workBits(for: peer("::ffff:192.0.2.9"), at: now) == 0)
    #expect(admission.workBits(for: peer("192.0.2.9"), at: now) == 16)
    for address in ["", "nonsense"] {
      for _ in 0..<5 { #expect(admission.workBits(for: peer(address), at: now) == 0) }
    }
  }

  @Test("R26: a flood from everywhere does not grow memory: networks that cannot be counted are asked for work")
  func bounded() {
    let admission = GuestAdmission(perHour: 60, capacity: 100)
    for index in 0..<100 { #expect(admission.workBits(for: peer("10.0.\(index).1"), at: now) == 0) }
    #expect(admission.workBits(for: peer("10.1.0.1"), at: now) == 16)
    #expect(admission.countedNetworks == 100)
    #expect(admission.workBits(for: peer("10.1.0.1"), at: now + .seconds(120)) == 0)
  }

  @Test("CHALLENGE_REQUIRED: a guest from a busy network is issued for work done; refusing uses up no challenge")
  func proofOfWork() async throws {
    let harness = try await IdentityHarness(guestsPerHour: 1)
    let device = try TestDevice()
    _ = try await harness.issueGuest(device)
    let answer = try await harness.guests.getChallenge(
      IdentityV1.GetChallengeRequest(clientID: device.clientID, deviceKey: device.jwk))
    #expect(answer.powBits == 16)
    var request = try device.issueRequest(answer.challenge)
    let unsolved = request
    let refusal = await expectRefusal(.failedPrecondition, "CHALLENGE_REQUIRED") {
      try await harness.guests.issueGuest(unsolved)
    }
    #expect(refusal?.details.info == [RPCError.KeyValue("pow_bits", "16")])
    var counter: UInt64 = 0
    repeat {
      counter += 1
      request.powSolution = stride(from: UInt64(0), to: 64, by: 8).map { UInt8(truncatingIfNeeded: counter >> $0) }
    } while ProofOfWork.leadingZeroBits(
      SHA256Hash.hash(Array(answer.challenge.utf8) + request.powSolution)) < 16
    let solved = request
    #expect(try await !harness.guests.issueGuest(solved).created)
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await harness.guests.issueGuest(solved) }
  }

  @Test("R24: the 101st password in a row is not looked at for an hour, even when it is right, also after a restart")
  func throttled() async throws {
    var harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    _ = try await harness.register("ada@example.com", guest: guest.tokens)
    for _ in 0..<100 {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
        try await harness.signIn("ada@example.com", password: "wrong one")
      }
      harness.clock.advance(by: .seconds(300))
    }
    harness = try await harness.restarted()
    let refusal = await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") {
      try await harness.signIn("ada@example.com")
    }
    #expect(refusal?.details.retryAfter == .seconds(3300))

    // The owner's device, on which the account was used before, is not slowed down by strangers.
    let own = try await harness.issueGuest(device)
    let signedIn = try await harness.signIn("ada@example.com", guest: own.tokens, onConflict: .switch)
    #expect(signedIn.tokens != nil)
    // Another device is.
    let stranger = try await harness.issueGuest(try TestDevice())
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") {
      try await harness.signIn("ada@example.com", guest: stranger.tokens, onConflict: .switch)
    }
    harness.clock.advance(by: .seconds(3300))
    _ = try await harness.signIn("ada@example.com")
    // A right one begins the count anew.
    for _ in 0..<10 {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
        try await harness.signIn("ada@example.com", password: "wrong one")
      }
    }
  }

  @Test("R24, R25: guesses at the same time count like any others, for accounts that do not exist too")
  func concurrentGuesses() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    for identifier in ["ada@example.com", "nobody@example.com"] {
      let looked = await withTaskGroup(of: Bool.self) { group in
        for _ in 0..<50 {
          group.addTask {
            do {
              _ = try await harness.signIn(identifier, password: "wrong one")
            } catch let error as RPCError {
              return error.details.reason == "INVALID_CREDENTIALS"
            } catch {}
            return false
          }
        }
        return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(looked == 10)
    }
  }
}
