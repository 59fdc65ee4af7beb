import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Sessions and devices")
struct SessionServiceTests {
  private func list(_ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?) async throws -> [IdentityV1.Session] {
    try await harness.sessions.listSessions(IdentityV1.ListSessionsRequest(), options: .bearer(tokens)).sessions
  }

  private func screen(
    _ harness: IdentityHarness, _ account: IdentityV1.RegisterResponse
  ) async throws -> CommonV1.TokenSet {
    try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: "qr-1",
        sub: account.subject?.sub ?? "",
        confirmedBySid: account.tokens?.sid ?? "",
        clientID: "desktop",
        scope: "basic profile account",
        deviceLabel: "A screen",
        platform: "Linux",
        confirmerAuthTime: .init(harness.clock.now())
      ),
      options: .service
    ).tokens.orThrow()
  }

  @Test("R16: a person lists the own live sessions, the newest first, and ends one at once")
  func listAndRevoke() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    _ = try await harness.register("bob@example.com")
    harness.clock.advance(by: .seconds(1))
    let second = try await harness.signIn("ada@example.com").tokens.orThrow()
    let sessions = try await list(harness, account.tokens)
    #expect(sessions.map(\.sid) == [second.sid, account.tokens?.sid ?? ""])
    #expect(sessions.map(\.current) == [false, true])
    #expect(sessions[0].method == "password" && sessions[0].clientID == "app.test" && sessions[0].confirmed)
    #expect(sessions[0].createdAt?.seconds == harness.clock.now().secondsSinceEpoch)
    let revoke = IdentityV1.RevokeSessionRequest(sid: second.sid)
    #expect(try await harness.sessions.revokeSession(revoke, options: .bearer(account.tokens)).ended)
    #expect(try await !harness.sessions.revokeSession(revoke, options: .bearer(account.tokens)).ended)
    #expect(try await !harness.isActive(second.accessToken))
    #expect(try await list(harness, account.tokens).count == 1)
  }

  @Test("R40: another's session can be neither listed, ended nor confirmed, and is as unknown as one that never was")
  func otherSessions() async throws {
    let harness = try await IdentityHarness()
    let ada = try await harness.register("ada@example.com")
    let bob = try await harness.register("bob@example.com").tokens.orThrow()
    for sid in [bob.sid, SessionID(from: harness.core.random).description] {
      await expectRefusal(.notFound, "SESSION_NOT_FOUND") {
        try await harness.sessions.revokeSession(
          IdentityV1.RevokeSessionRequest(sid: sid), options: .bearer(ada.tokens))
      }
      await expectRefusal(.notFound, "SESSION_NOT_FOUND") {
        try await harness.sessions.confirmSession(
          IdentityV1.ConfirmSessionRequest(sid: sid), options: .bearer(ada.tokens))
      }
    }
    #expect(try await harness.isActive(bob.accessToken))
    await expectRefusal(.invalidArgument, field: "sid") {
      try await harness.sessions.revokeSession(IdentityV1.RevokeSessionRequest(), options: .bearer(ada.tokens))
    }
  }

  @Test("S18: a session from a code is unconfirmed: it cannot end the others, unless one of them confirms it")
  func unconfirmed() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let screen = try await screen(harness, account)
    let own = try await list(harness, screen)
    #expect(own.first { $0.current }?.confirmed == false)
    let others = IdentityV1.RevokeOtherSessionsRequest()
    await expectRefusal(.permissionDenied, "SESSION_UNCONFIRMED") {
      try await harness.sessions.revokeOtherSessions(others, options: .bearer(screen))
    }
    await expectRefusal(.permissionDenied, "SESSION_UNCONFIRMED") {
      try await harness.sessions.revokeSession(
        IdentityV1.RevokeSessionRequest(sid: account.tokens?.sid ?? ""), options: .bearer(screen))
    }
    await expectRefusal(.permissionDenied, "SESSION_UNCONFIRMED") {
      try await harness.logOut(screen, scope: .global)
    }
    await expectRefusal(.permissionDenied, "SESSION_UNCONFIRMED") {
      try await harness.sessions.confirmSession(
        IdentityV1.ConfirmSessionRequest(sid: screen.sid), options: .bearer(screen))
    }
    _ = try await harness.sessions.confirmSession(
      IdentityV1.ConfirmSessionRequest(sid: screen.sid), options: .bearer(account.tokens))
    #expect(try await harness.sessions.revokeOtherSessions(others, options: .bearer(screen)).sessionsEnded == 1)
    #expect(try await !harness.isActive(try account.tokens.orThrow().accessToken))
  }

  @Test("S18: an unconfirmed session can end itself, and no day makes it its owner's")
  func notConfirmedByTime() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    var tokens = try await screen(harness, account)
    harness.clock.advance(by: .seconds(86_400))
    tokens = try await harness.refresh(tokens)
    let expired = tokens
    await #expect(throws: RPCError.self) {
      try await harness.sessions.revokeOtherSessions(
        IdentityV1.RevokeOtherSessionsRequest(), options: .bearer(expired))
    }
    let again = try await harness.signIn("ada@example.com")
    let fresh = try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: "qr-2", sub: again.subject?.sub ?? "", confirmedBySid: again.tokens?.sid ?? "",
        clientID: "desktop"),
      options: .service
    )
    #expect(try await harness.logOut(fresh.tokens).sessionsEnded == 1)
  }

  @Test("R15: a watch tells what begins and ends as it happens, and closes when its own session ends")
  func watch() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let other = try await harness.signIn("ada@example.com").tokens.orThrow()
    var told: [IdentityV1.WatchSessionEventsResponse] = []
    let end = await expectRefusal(.unauthenticated, "SESSION_REVOKED") {
      try await harness.sessions.watchSessionEvents(
        IdentityV1.WatchSessionEventsRequest(), options: .bearer(account.tokens)
      ) { (events) throws(RPCError) in
        for try await event in events {
          told.append(event)
          switch told.count {
          case 1:
            _ = try await harness.auth.refresh(IdentityV1.RefreshRequest(refreshToken: other.refreshToken))
            _ = try await harness.auth.authenticate(
              IdentityV1.AuthenticateRequest(
                clientID: "app.test",
                method: .password(
                  IdentityV1.PasswordCredential(
                    identifier: "ada@example.com", password: IdentityHarness.password))))
          case 2: _ = try await harness.auth.revoke(IdentityV1.RevokeRequest(token: other.refreshToken))
          case 3:
            _ = try await harness.auth.logout(
              IdentityV1.LogoutRequest(scope: .global), options: .bearer(account.tokens))
          default: break
          }
        }
      }
    }
    #expect(end != nil)
    #expect(told.prefix(3).map(\.event) == [.watching, .started, .ended])
    #expect(told[1].session?.method == "password")
    #expect(told[2].sid == other.sid)
    try await eventually { harness.core.sessionEvents.count == 0 }
  }

  @Test("Reuse of a refresh token is told to the other sessions")
  func reuse() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let first = try await harness.signIn("ada@example.com").tokens.orThrow()
    let second = try await harness.refresh(first)
    _ = try await harness.refresh(second)
    let event = try await harness.sessions.watchSessionEvents(
      IdentityV1.WatchSessionEventsRequest(), options: .bearer(account.tokens)
    ) { (events) throws(RPCError) -> IdentityV1.WatchSessionEventsResponse? in
      var iterator = events.makeAsyncIterator()
      _ = try await iterator.next()
      _ = try? await harness.refresh(first)
      return try await iterator.next()
    }
    #expect(event?.event == .refreshReused && event?.sid == first.sid)
  }

  @Test("A watch ends with UNAVAILABLE when the service stops, and none begins: the app watches another instance")
  func drain() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    for _ in ["ended", "refused"] {
      let error = await expectRefusal(.unavailable) {
        try await harness.sessions.watchSessionEvents(
          IdentityV1.WatchSessionEventsRequest(), options: .bearer(account.tokens)
        ) { (events) throws(RPCError) in
          for try await _ in events { harness.core.sessionEvents.drain() }
        }
      }
      let wait = try (error?.details.retryAfter).orThrow()
      #expect(wait >= .zero && wait <= .seconds(2))
    }
  }

  @Test("R16: devices are listed by their keys, renamed, and removed with their sessions, the owner's only")
  func devices() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let account = try await harness.register("ada@example.com", guest: try await harness.issueGuest(device).tokens)
    let second = try TestDevice()
    let guest = try await harness.issueGuest(second)
    let other = try await harness.signIn("ada@example.com", guest: guest.tokens, onConflict: .switch).tokens.orThrow()
    func list() async throws -> [IdentityV1.ListedDevice] {
      try await harness.devices.listDevices(IdentityV1.ListDevicesRequest(), options: .bearer(account.tokens)).devices
    }
    var devices = try await list()
    #expect(Set(devices.map(\.keyThumbprint)) == [device.key.publicKey.thumbprint, second.key.publicKey.thumbprint])
    let own = try devices.first { $0.current }.orThrow()
    #expect(own.keyThumbprint == device.key.publicKey.thumbprint)
    #expect(own.label == "Ada's phone" && own.platform == "iOS" && own.osVersion == "26.1" && own.sessions == 1)

    let name = IdentityV1.RenameDeviceRequest(keyThumbprint: second.key.publicKey.thumbprint, label: "Küche")
    _ = try await harness.devices.renameDevice(name, options: .bearer(account.tokens))
    devices = try await list()
    #expect(devices.first { !$0.current }?.label == "Küche")

    let bob = try await harness.register("bob@example.com").tokens
    await expectRefusal(.notFound, "DEVICE_NOT_FOUND") {
      try await harness.devices.renameDevice(name, options: .bearer(bob))
    }
    let remove = IdentityV1.RemoveDeviceRequest(keyThumbprint: second.key.publicKey.thumbprint)
    #expect(try await harness.devices.removeDevice(remove, options: .bearer(bob)).sessionsEnded == 0)
    #expect(try await harness.isActive(other.accessToken))
    #expect(try await harness.devices.removeDevice(remove, options: .bearer(account.tokens)).sessionsEnded == 1)
    #expect(try await !harness.isActive(other.accessToken))
    #expect(try await list().count == 1)
    await expectRefusal(.invalidArgument, field: "key_thumbprint") {
      try await harness.devices.removeDevice(IdentityV1.RemoveDeviceRequest(), options: .bearer(bob))
    }
  }
}
