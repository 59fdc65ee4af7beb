import NIOCore
import TLS
import TestSupport
import Testing

@Suite("A TLS handshake")
struct HandshakeTests {
  let authority: TestAuthority
  let identity: TLSIdentity

  init() throws {
    authority = try TestAuthority()
    identity = try authority.identity("DNS:localhost,DNS:*.example.test,IP:127.0.0.1,IP:::1")
  }

  func pair(
    host: String = "localhost",
    server: TLSServerContext.Configuration? = nil,
    client: TLSClientContext.Configuration? = nil
  ) throws -> TLSPair {
    var pair = try TLSPair(
      client: TLSClientContext(client ?? .init(trust: authority.trust)),
      server: TLSServerContext(server ?? .init(identity: identity)),
      host: host
    )
    pair.exchange()
    return pair
  }

  @Test("settles version 1.3, a listed cipher and h2")
  func settles13() throws {
    let pair = try pair()
    #expect(pair.clientError == nil && pair.serverError == nil)
    #expect(pair.client.version == .tls13 && pair.server.version == .tls13)
    #expect(pair.client.cipher == "TLS_AES_128_GCM_SHA256")
    #expect(pair.client.applicationProtocol == .http2 && pair.server.applicationProtocol == .http2)
    #expect(pair.client.peerNames == ["localhost", "*.example.test", "127.0.0.1", "0:0:0:0:0:0:0:1"])
  }

  @Test("serves keys of both kinds", arguments: [TestAuthority.KeyKind.p256, .rsa2048])
  func keyKinds(kind: TestAuthority.KeyKind) throws {
    let pair = try pair(server: .init(identity: authority.identity("DNS:localhost", key: kind)))
    #expect(pair.clientError == nil && pair.serverError == nil && pair.server.isHandshakeFinished)
  }

  @Test(
    "accepts the names and addresses of the certificate",
    arguments: ["localhost", "LOCALHOST", "a.example.test", "127.0.0.1", "::1"]
  )
  func acceptsHosts(host: String) throws {
    let pair = try pair(host: host)
    #expect(pair.clientError == nil && pair.server.isHandshakeFinished)
  }

  @Test(
    "refuses a certificate for another host, and the server learns it by an alert",
    arguments: ["example.test", "a.b.example.test", "127.0.0.2", "local", "localhost.evil.test"]
  )
  func refusesHosts(host: String) throws {
    let pair = try pair(host: host)
    #expect(pair.clientError == TLSError(.handshake, .peer, .wrongHost))
    guard case .alert = pair.serverError?.reason else {
      Issue.record("the server saw \(String(describing: pair.serverError))")
      return
    }
  }

  @Test("does not take the subject's common name for a host")
  func ignoresCommonName() throws {
    // The leaf's subject is CN=leaf2.
    let pair = try pair(host: "leaf2", server: .init(identity: authority.identity("DNS:other.test")))
    #expect(pair.clientError?.reason == .wrongHost)
  }

  @Test("refuses a host name with an embedded NUL or none at all", arguments: ["", "localhost\0.evil.test"])
  func refusesUnusableHosts(host: String) throws {
    let context = try TLSClientContext(.init(trust: authority.trust))
    #expect(throws: TLSError(.configure, .us, .wrongHost)) { try TLSSession(client: context, host: host) }
  }

  @Test("refuses a chain from an unknown authority")
  func refusesUnknownAuthority() throws {
    let pair = try pair(client: .init(trust: TestAuthority(name: "Another").trust))
    guard case .untrustedCertificate = pair.clientError?.reason else {
      Issue.record("the client saw \(String(describing: pair.clientError))")
      return
    }
    #expect(pair.clientError?.fault == .peer && pair.clientError?.isTransient == false)
    #expect(pair.serverError?.reason == .alert(48), "unknown_ca")
  }

  @Test("refuses a certificate that has expired")
  func refusesExpired() throws {
    let pair = try pair(server: .init(identity: authority.identity("DNS:localhost", days: -1)))
    #expect(pair.clientError?.reason == .certificateOutOfDate)
    #expect(pair.serverError?.reason == .alert(45), "certificate_expired")
  }

  @Test("ends with no_application_protocol when no protocol is common")
  func refusesUnknownProtocol() throws {
    let pair = try pair(
      server: .init(identity: identity, protocols: [.http2]),
      client: .init(trust: authority.trust, protocols: [.http1])
    )
    #expect(pair.serverError == TLSError(.handshake, .peer, .noCommonProtocol))
    #expect(pair.clientError?.reason == .alert(120))
  }

  @Test("lets the server choose its best protocol")
  func serverChooses() throws {
    let both: [ALPNProtocol] = [.http1, .http2]
    let pair = try pair(client: .init(trust: authority.trust, protocols: both))
    #expect(pair.client.applicationProtocol == .http2)
  }

  @Test("speaks version 1.2 with who knows no other")
  func settles12() throws {
    let pair = try pair(client: .init(trust: authority.trust, maximumVersion: .tls12))
    #expect(pair.clientError == nil && pair.serverError == nil)
    #expect(pair.server.version == .tls12 && pair.server.applicationProtocol == .http2)
    #expect(pair.server.cipher == "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
  }

  @Test("refuses version 1.2 where 1.3 is the least")
  func refusesOldVersion() throws {
    let pair = try pair(
      server: .init(identity: identity, minimumVersion: .tls13),
      client: .init(trust: authority.trust, maximumVersion: .tls12)
    )
    #expect(pair.serverError == TLSError(.handshake, .peer, .noCommonParameters))
    #expect(pair.clientError?.reason == .alert(70), "protocol_version")
  }

  @Test("settles no protocol with a client that names none")
  func withoutALPN() throws {
    let pair = try pair(client: .init(trust: authority.trust, protocols: []))
    #expect(pair.server.isHandshakeFinished && pair.server.applicationProtocol == nil)
  }
}
