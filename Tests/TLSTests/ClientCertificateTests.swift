import TLS
import TestSupport
import Testing

@Suite("A client's certificate")
struct ClientCertificateTests {
  let authority: TestAuthority
  let server: TLSIdentity

  init() throws {
    authority = try TestAuthority()
    server = try authority.identity("DNS:localhost")
  }

  func pair(
    _ clients: TLSServerContext.ClientCertificate,
    shows identity: TLSIdentity?,
    version: TLSVersion
  ) throws -> TLSPair {
    var pair = try TLSPair(
      client: TLSClientContext(.init(trust: authority.trust, identity: identity, maximumVersion: version)),
      server: TLSServerContext(.init(identity: server, clientCertificate: clients))
    )
    pair.exchange()
    return pair
  }

  @Test("that is vouched for names the peer", arguments: [TLSVersion.tls12, .tls13])
  func accepted(version: TLSVersion) throws {
    let client = try authority.identity("DNS:qr.internal,URI:spiffe://latchkey/qr")
    let pair = try pair(.required(authority.trust), shows: client, version: version)
    #expect(pair.clientError == nil && pair.serverError == nil)
    #expect(pair.server.peerNames == ["qr.internal", "spiffe://latchkey/qr"])
  }

  @Test("is demanded where it is required", arguments: [TLSVersion.tls12, .tls13])
  func missing(version: TLSVersion) throws {
    let pair = try pair(.required(authority.trust), shows: nil, version: version)
    #expect(pair.serverError == TLSError(.handshake, .peer, .certificateMissing))
    #expect(pair.server.peerNames == [])
    guard case .alert = pair.clientError?.reason else {
      Issue.record("the client saw \(String(describing: pair.clientError))")
      return
    }
  }

  @Test("may be missing where it is only requested")
  func optional() throws {
    let pair = try pair(.requested(authority.trust), shows: nil, version: .tls13)
    #expect(pair.serverError == nil && pair.server.isHandshakeFinished && pair.server.peerNames == [])
  }

  @Test("of another authority is refused, also where none is required", arguments: [true, false])
  func untrusted(isRequired: Bool) throws {
    let stranger = try TestAuthority(name: "Stranger").identity("DNS:qr.internal")
    let trust = try authority.trust
    let pair = try pair(isRequired ? .required(trust) : .requested(trust), shows: stranger, version: .tls13)
    guard case .untrustedCertificate = pair.serverError?.reason else {
      Issue.record("the server saw \(String(describing: pair.serverError))")
      return
    }
  }

  @Test("that has expired is refused")
  func expired() throws {
    let client = try authority.identity("DNS:qr.internal", days: -1)
    let pair = try pair(.required(authority.trust), shows: client, version: .tls13)
    #expect(pair.serverError?.reason == .certificateOutOfDate)
  }

  @Test("is not asked for where it is ignored")
  func ignored() throws {
    let client = try authority.identity("DNS:qr.internal")
    let pair = try pair(.ignored, shows: client, version: .tls13)
    #expect(pair.server.isHandshakeFinished && pair.server.peerNames == [])
  }
}
