import LatchkeyClient
import LatchkeyModel
import Synchronization
import Testing

@Suite("Proving again who one is, as an app does")
struct ClientStepUpTests {
  /// What the app was asked, and what it answers with.
  private final class Asked: Sendable {
    let requests = Mutex<[ProofRequest]>([])
  }

  @Test("R46: a guest's device proves its key by itself, and the call that needed it is made once more")
  func guest() async throws {
    let harness = try await Harness()
    let before = try await harness.startGuest()
    let device = harness.device()
    harness.clock.advance(by: .seconds(301))
    harness.serviceClock.advance(by: .seconds(301))
    #expect(try await !device.offerTransfer().code.isEmpty)
    #expect(try await device.refreshSession().subject == before.session.subject)
  }

  @Test("R46: the person is asked once for what would do; who does not answer is refused")
  func account() async throws {
    let harness = try await Harness()
    let device = harness.device()
    _ = try await device.register(identifier: "ada@example.com", password: "correct horse battery")
    harness.clock.advance(by: .seconds(301))
    harness.serviceClock.advance(by: .seconds(301))
    await #expect(throws: ClientError.self) { try await device.endOtherSessions() }
    let asked = Asked()
    await device.askForProofs { request in
      asked.requests.withLock { $0.append(request) }
      return .password(identifier: "ada@example.com", password: "correct horse battery")
    }
    #expect(try await device.endOtherSessions() == 0)
    #expect(try await device.endOtherSessions() == 0)
    let requests = asked.requests.withLock { $0 }
    #expect(requests.count == 1 && requests.first?.maximumAge == .seconds(300))
    #expect(requests.first?.proofs.contains("password") == true)
    #expect(try await device.refreshSession().isGuest == false)
  }
}
