import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import Testing

@testable import IdentityService

@Suite("Notices to owners, as they are delivered")
struct NoticeCourierTests {
  private func write(_ harness: IdentityHarness, _ recipients: [String]) async throws {
    let now = harness.clock.now()
    try await harness.database.write { db throws(StorageError) in
      for (number, recipient) in recipients.enumerated() {
        try db.execute(
          """
          INSERT INTO notices (key, notice, recipient, at, attempts, due_at)
          VALUES (?, 'password_changed', ?, ?, 0, ?)
          """,
          .text("notice \(number)"), .text(recipient), .integer(now.millisecondsSinceEpoch),
          .integer(now.millisecondsSinceEpoch))
      }
    }
  }

  @Test("R50: mail that is held up holds up no text message", .timeLimit(.minutes(1)))
  func channels() async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(codeSink: box)
    let mail = (0..<20).map { "ada\($0)@example.com" }
    box.hold(mail)
    try await write(harness, mail + ["+4915112345678"])
    let courier = Task { await harness.rooms.upkeep.notices.run() }
    defer { courier.cancel() }
    while box.notices.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
    #expect(box.notices.map(\.recipient.canonical) == ["+4915112345678"])
    box.letGo()
    while box.notices.count < 21 { try await Task.sleep(for: .milliseconds(2)) }
  }

  @Test("R48: notices that are dropped, because too many wait for their recipient, are counted")
  func dropped() async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(codeSink: box)
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    let address = "ada@example.com"
    let sent = try await harness.auth.sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: address, purpose: .proveAddress))
    let account = try await harness.auth.register(
      IdentityV1.RegisterRequest(
        clientID: "app.test",
        password: IdentityV1.PasswordCredential(identifier: address, password: IdentityHarness.password),
        otp: IdentityV1.OtpCredential(identifier: address, code: try await box.code(), handle: sent.handle)))
    let notices = harness.rooms.upkeep.notices
    var password = IdentityHarness.password
    for number in 0..<11 {
      let next = "a better horse battery \(number)"
      _ = try await harness.accounts.changePassword(
        IdentityV1.ChangePasswordRequest(password: password, newPassword: next), options: .bearer(account.tokens))
      password = next
      harness.clock.advance(by: .seconds(1))
    }
    #expect(notices.dropped.take() == 3)
    #expect(notices.dropped.take() == 0)
  }
}
