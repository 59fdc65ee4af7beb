import GRPC
import IdentityService
import Storage
import Synchronization
import Testing

@testable import LatchkeyClient

@Suite("Ways to sign in, from the app's side") struct SignInMethodTests {
  private final class Postbox: CodeSink {
    private let state = Mutex<[String]>([])

    func deliver(_ message: CodeMessage) async throws(CodeDeliveryError) {
      state.withLock { $0.append(String(decoding: message.code.exposed, as: UTF8.self)) }
    }

    func deliver(_ notice: OwnerNotice) async throws(CodeDeliveryError) {}

    func code() async throws -> String {
      while true {
        if let code = state.withLock({ $0.last }) { return code }
        try await Task.sleep(for: .milliseconds(2))
      }
    }
  }

  private func subject(_ outcome: SignInOutcome) -> LatchkeyClient.SubjectID? {
    if case .signedIn(let signIn) = outcome { signIn.session.subject } else { nil }
  }

  @Test("G20: a code makes an account and a custom secret another", .timeLimit(.minutes(1)))
  func registers() async throws {
    let box = Postbox()
    let harness = try await Harness(codeSink: box)
    let courier = Task { await harness.rooms.upkeep.courier.run() }
    defer { courier.cancel() }
    let guest = try await harness.startGuest()
    let sent = try await harness.device().sendCode(to: "ada@example.com", purpose: .proveAddress)
    #expect(sent == CodeSent(expiresIn: .seconds(300), resendAfter: .seconds(60), attemptsLeft: 5))
    let account = try await harness.device().register(address: "ada@example.com", code: try await box.code())
    #expect(account.session.subject == guest.session.subject && account.change?.promoted == true)
    _ = try await harness.device().signOut()

    let (id, secret) = ("8d3a9f52-0f6e-4c06-9d7e-0c4a8e2b1f77", "5b1e1c9e-5d7b-4c0e-8f0a-3f5f0e6c9a11")
    let custom = try await harness.device().register(customID: id, secret: secret)
    _ = try await harness.device().signOut()
    let again = try await harness.device().signIn(with: .customSecret(id: id, secret: secret))
    #expect(subject(again) == custom.session.subject)
  }

  @Test("P1: a pattern signs in on its device, with the device's key", arguments: [false, true])
  func pattern(bindsTokens: Bool) async throws {
    let harness = try await Harness()
    let device = harness.device(bindsTokens: bindsTokens)
    _ = try await device.startAsGuest(DeviceDescription(label: "test"))
    let account = try await device.register(identifier: "ada@example.com", password: "correct horse battery")
    try await device.enrolPattern("0-1-2-5-8")
    _ = try await device.signOut()
    let again = try await device.signIn(with: .pattern("0-1-2-5-8"))
    #expect(subject(again) == account.session.subject)
    await #expect(throws: ClientError.self) { try await device.signIn(with: .pattern("0-1-2-5-7")) }
  }

  @Test("G23: work that the service asks for is done, and the person notices nothing")
  func work() async throws {
    let harness = try await Harness(signInsPerHour: 1)
    for name in ["ada", "bob"] {
      _ = try await harness.device().register(identifier: "\(name)@example.com", password: "correct horse battery")
    }
    for _ in 0..<2 {
      let outcome = try await harness.device().signIn(
        identifier: "ada@example.com", password: "correct horse battery")
      #expect(subject(outcome) != nil)
    }
  }
}
