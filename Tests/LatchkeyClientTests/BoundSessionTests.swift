import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Testing

@testable import LatchkeyClient

@Suite("Sessions that are bound to the device's key") struct BoundSessionTests {
  private func guest(_ device: DeviceClient) async throws {
    _ = try await device.startAsGuest(DeviceDescription(label: "test"))
  }

  @Test("R22: tokens are bound to the device's key, each call proves it, and a stolen token opens nothing")
  func bound() async throws {
    let harness = try await Harness()
    let device = harness.device(bindsTokens: true)
    try await guest(device)
    #expect(try await device.introspect().active)
    let sent = try #require(harness.channel.metadata(ofLast: Harness.introspect))
    #expect(sent["authorization"]?.hasPrefix("DPoP ") == true)
    let first = try #require(sent["dpop"])
    #expect(try await device.introspect().active)
    #expect(harness.channel.metadata(ofLast: Harness.introspect)?["dpop"] != first)
    let token = try await device.accessToken()
    let auth = IdentityV1.AuthServiceClient(channel: harness.channel)
    let error = await #expect(throws: RPCError.self) {
      try await auth.introspect(
        IdentityV1.IntrospectRequest(token: token),
        options: CallOptions(metadata: ["authorization": "Bearer \(token)"]))
    }
    #expect(error?.details.reason == "invalid_dpop_proof")
  }

  @Test("R21: the session goes on with the device's key, also after a restart of the app")
  func refreshes() async throws {
    let harness = try await Harness()
    try await guest(harness.device(bindsTokens: true))
    harness.advance(by: .seconds(900))
    #expect(try await harness.device(bindsTokens: true).introspect().active)
    harness.advance(by: .seconds(900))
    // Bound once, it stays so whatever the configuration says now.
    #expect(try await harness.device().introspect().active)
    #expect(harness.refreshes == 2)
  }

  @Test("R22: a service's nonce is put into the next proof, and a new one into the one after", .timeLimit(.minutes(1)))
  func nonces() async throws {
    let harness = try await Harness(proofs: DPoPVerifier(needsNonces: true))
    let device = harness.device(bindsTokens: true)
    try await guest(device)
    for _ in 0..<4 {
      #expect(try await device.introspect().active)
      harness.advance(by: .seconds(240))
    }
  }

  @Test("P9: a device whose clock is wrong is believed by the service's time", arguments: [-7200, 7200])
  func wrongClock(skew: Int) async throws {
    let harness = try await Harness()
    let device = harness.device(skew: .seconds(skew), bindsTokens: true)
    try await guest(device)
    #expect(try await device.introspect().active)
    #expect(try await harness.device(skew: .seconds(skew), bindsTokens: true).introspect().active)
  }

  @Test("G2: a guest made before tokens were bound is the same guest after")
  func sameGuest() async throws {
    let harness = try await Harness()
    let before = try await harness.startGuest()
    let after = try await harness.device(bindsTokens: true).startAsGuest(DeviceDescription(label: "test"))
    #expect(before.session.subject == after.session.subject && !after.created)
    #expect(try await harness.device(bindsTokens: true).introspect().active)
  }
}
