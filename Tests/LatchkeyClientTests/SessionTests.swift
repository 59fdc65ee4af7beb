import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import LatchkeyClient

@Suite struct SessionTests {
  let harness: Harness

  init() async throws { harness = try await Harness() }

  @Test("G6: calls carry the guest's token")
  func tokenAttached() async throws {
    _ = try await harness.startGuest()
    #expect(try await harness.device().introspect().active)
    let sent = harness.channel.metadata(ofLast: Harness.introspect)?["authorization"]
    #expect(try await sent == "Bearer \(harness.device().accessToken())")
  }

  @Test("P9: a token about to expire is refreshed ahead, by the service's clock", arguments: [-7200, 0, 7200])
  func refreshAhead(skewSeconds: Int) async throws {
    let skew: Duration = .seconds(skewSeconds)
    _ = try await harness.device(skew: skew).startAsGuest(DeviceDescription(label: "test"))
    _ = try await harness.device(skew: skew).introspect()
    #expect(harness.refreshes == 0)
    harness.advance(by: .seconds(900) - Limits.refreshAhead)
    _ = try await harness.device(skew: skew).introspect()
    #expect(harness.refreshes == 1)
  }

  @Test("P10: a token that the service calls expired is refreshed and the call repeated once")
  func refreshAndRetry() async throws {
    _ = try await harness.startGuest()
    harness.expireAccessToken()
    #expect(try await harness.device().introspect().active)
    let calls = harness.channel.calls.suffix(3)
    #expect(Array(calls) == [Harness.introspect, Harness.refresh, Harness.introspect])
  }

  @Test("P10: a second refusal is the answer")
  func retryOnce() async throws {
    _ = try await harness.startGuest()
    for _ in 0..<2 { harness.channel.inject(.refused(Harness.expired), into: Harness.introspect) }
    await #expect(throws: ClientError.self) { try await harness.device().introspect() }
    let calls = harness.channel.calls.suffix(3)
    #expect(Array(calls) == [Harness.introspect, Harness.refresh, Harness.introspect])
  }

  @Test("P10: calls that find out together share one refresh")
  func singleFlight() async throws {
    _ = try await harness.startGuest()
    harness.expireAccessToken()
    let device = harness.device()
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for _ in 0..<20 { group.addTask { try await device.introspect().active } }
      for try await active in group { #expect(active) }
    }
    #expect(harness.refreshes == 1)
  }

  @Test("P11: a new pair is kept before it is used")
  func keptBeforeUse() async throws {
    _ = try await harness.startGuest()
    harness.expireAccessToken()
    harness.store.fail([.save])
    await #expect(throws: ClientError.self) { try await harness.device().introspect() }
    #expect(harness.channel.calls.last == Harness.refresh)
  }

  @Test("P12: a refresh that the network loses keeps the credential")
  func networkKeeps() async throws {
    let start = try await harness.startGuest()
    harness.expireAccessToken()
    harness.channel.inject(.requestLost, into: Harness.refresh)
    await #expect(throws: ClientError.self) { try await harness.device().introspect() }
    #expect(try await harness.device().authState() == .guest(start.session))
    #expect(try await harness.device().introspect().active)
  }

  @Test(
    "P13: a refresh that the service refuses forgets the credential",
    arguments: ["REFRESH_TOKEN_INVALID", "REFRESH_TOKEN_REUSED", "SESSION_REVOKED"]
  )
  func refusalForgets(reason: String) async throws {
    _ = try await harness.startGuest()
    harness.expireAccessToken()
    harness.channel.inject(
      .refused(RPCError(.unauthenticated, "refused", reason: reason)), into: Harness.refresh)
    await #expect(throws: ClientError.sessionEnded(reason: reason)) { try await harness.device().introspect() }
    #expect(try await harness.device().authState() == .unknown)
    await #expect(throws: ClientError.signedOut) { try await harness.device().introspect() }
  }

  @Test("P13: any other refusal keeps the credential")
  func otherRefusalKeeps() async throws {
    let start = try await harness.startGuest()
    harness.expireAccessToken()
    harness.channel.inject(
      .refused(RPCError(.unauthenticated, "refused", reason: "SOMETHING_NEW")), into: Harness.refresh)
    await #expect(throws: ClientError.self) { try await harness.device().introspect() }
    #expect(try await harness.device().authState() == .guest(start.session))
  }

  /// Ends the device's session behind its back, as another device of the account would.
  private func endElsewhere() async throws {
    let token = try await harness.device().accessToken()
    let auth = IdentityV1.AuthServiceClient(channel: harness.channel)
    let options = CallOptions(metadata: ["authorization": "Bearer \(token)"])
    _ = try await auth.logout(IdentityV1.LogoutRequest(), options: options)
  }

  @Test("P13: a session that ended elsewhere is forgotten by the first call that hears of it")
  func endedElsewhere() async throws {
    _ = try await harness.startGuest()
    try await endElsewhere()
    await #expect(throws: ClientError.sessionEnded(reason: "SESSION_REVOKED")) {
      try await harness.device().introspect()
    }
    #expect(try await harness.device().authState() == .unknown)
  }

  @Test("P13: a service that wrongly calls a session ended costs a refresh, not the session")
  func wronglyEnded() async throws {
    _ = try await harness.startGuest()
    let ended = RPCError(.unauthenticated, "the session has ended", reason: "SESSION_REVOKED")
    harness.channel.inject(.refused(ended), into: Harness.introspect)
    #expect(try await harness.device().introspect().active)
    #expect(harness.refreshes == 1)
  }

  @Test("P13: signing out of a session that ended elsewhere is done, and leaves nobody signed in")
  func signOutOfEnded() async throws {
    _ = try await harness.startGuest()
    try await endElsewhere()
    #expect(try await harness.device().signOut() == nil)
    #expect(try await harness.device().authState() == .unknown)
  }

  /// Somebody else's sign-in on this device, as its store shows it.
  private func accountSignsIn() async throws {
    let ada = try await Harness.account(on: harness.channel)
    _ = try await harness.device().signIn(identifier: ada.name, password: ada.password, onConflict: .switch)
  }

  @Test("G11: what was begun as the guest is not repeated in the account's name")
  func notRepeated() async throws {
    _ = try await harness.startGuest()
    let ended = RPCError(.unauthenticated, "the session has ended", reason: "SESSION_REVOKED")
    harness.channel.inject(.refused(ended), into: Harness.introspect)
    harness.channel.meanwhile(Harness.introspect) { try await accountSignsIn() }
    await #expect(throws: ClientError.overtaken) { try await harness.device().introspect() }
    #expect(harness.channel.calls.count { $0 == Harness.introspect } == 1)
    guard case .user = try await harness.device().authState() else {
      Issue.record("the account is signed in")
      return
    }
  }

  @Test("G11: a refresh that is answered after a sign-out brings nobody back")
  func refreshAfterSignOut() async throws {
    _ = try await harness.startGuest()
    harness.channel.meanwhile(Harness.refresh, answered: true) {
      try harness.store.files.removeSecret(named: "session")
    }
    await #expect(throws: ClientError.signedOut) { try await harness.device().refreshSession() }
    #expect(try await harness.device().authState() == .unknown)
  }

  @Test("G11: a refresh that is answered after another sign-in leaves that one alone")
  func refreshAfterSignIn() async throws {
    _ = try await harness.startGuest()
    harness.channel.meanwhile(Harness.refresh, answered: true) { try await accountSignsIn() }
    await #expect(throws: ClientError.overtaken) { try await harness.device().refreshSession() }
    guard case .user = try await harness.device().authState() else {
      Issue.record("the account stays signed in")
      return
    }
    #expect(try await harness.device().introspect().active)
  }

  @Test("G11: a sign-out that is answered after another sign-in leaves that one alone")
  func signOutAfterSignIn() async throws {
    _ = try await harness.startGuest()
    harness.channel.meanwhile("/latchkey.identity.v1.AuthService/Logout") { try await accountSignsIn() }
    // The guest's own session has ended with the sign-in, so the sign-out asks for a refresh and hears of the other.
    await #expect(throws: ClientError.overtaken) { try await harness.device().signOut() }
    guard case .user = try await harness.device().authState() else {
      Issue.record("the account stays signed in")
      return
    }
  }

  @Test("P9: no lifetime that a service tells can overflow the clock", arguments: [Int64.min, -1, Int64.max])
  func toldLifetimes(seconds: Int64) async throws {
    let tokens = CommonV1.TokenSet(accessToken: "a", tokenType: "Bearer", expiresIn: seconds, refreshToken: "r")
    let stored = await harness.device().stored(tokens, sub: "s", isGuest: true, namespace: "n")
    #expect(stored.needsRefresh(at: harness.clock.now()) == (seconds <= 0))
  }
}
