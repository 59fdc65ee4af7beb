import NIOCore
import TLS
import TestSupport
import Testing

@Suite("Session resumption and reload")
struct ResumptionTests {
  let authority: TestAuthority
  let identity: TLSIdentity

  init() throws {
    authority = try TestAuthority()
    identity = try authority.identity("DNS:localhost")
  }

  func connect(_ client: TLSClientContext, _ server: TLSServerContext) throws -> TLSPair {
    var pair = try TLSPair(client: client, server: server)
    pair.exchange()
    #expect(pair.clientError == nil && pair.serverError == nil)
    return pair
  }

  @Test("resumes with a ticket of an earlier handshake", arguments: [TLSVersion.tls12, .tls13])
  func resumes(version: TLSVersion) throws {
    let client = try TLSClientContext(.init(trust: authority.trust, maximumVersion: version))
    let server = try TLSServerContext(.init(identity: identity))
    let first = try connect(client, server)
    let second = try connect(client, server)
    let third = try connect(client, server)
    #expect(!first.server.isResumed && second.server.isResumed && third.server.isResumed)
    #expect(second.client.isResumed && second.client.version == version)
    #expect(second.client.applicationProtocol == .http2)
  }

  @Test("does not resume with another host's session")
  func otherHost() throws {
    let wide = try authority.identity("DNS:localhost,DNS:other.test")
    let client = try TLSClientContext(.init(trust: authority.trust))
    let server = try TLSServerContext(.init(identity: wide))
    _ = try connect(client, server)
    var other = try TLSPair(client: client, server: server, host: "other.test")
    other.exchange()
    #expect(other.server.isHandshakeFinished && !other.server.isResumed)
  }

  @Test("a resumed session still knows the client's certificate")
  func keepsPeerNames() throws {
    let clientIdentity = try authority.identity("DNS:qr.internal")
    let client = try TLSClientContext(.init(trust: authority.trust, identity: clientIdentity))
    let server = try TLSServerContext(.init(identity: identity, clientCertificate: .required(authority.trust)))
    _ = try connect(client, server)
    let second = try connect(client, server)
    #expect(second.server.isResumed && second.server.peerNames == ["qr.internal"])
  }

  @Test("reload shows the new certificate to new handshakes, and open sessions go on")
  func reload() throws {
    let client = try TLSClientContext(.init(trust: authority.trust))
    let server = try TLSServerContext(.init(identity: identity))
    var open = try connect(client, server)
    try server.reload(.init(identity: authority.identity("DNS:localhost,DNS:renewed.test")))
    let fresh = try connect(TLSClientContext(.init(trust: authority.trust)), server)
    #expect(fresh.client.peerNames == ["localhost", "renewed.test"])
    try open.client.send(ByteBuffer(string: "still here"))
    open.exchange()
    #expect(open.serverError == nil && open.atServer == ByteBuffer(string: "still here"))
  }

  @Test("tickets outlive a reload")
  func ticketsOutliveReload() throws {
    let client = try TLSClientContext(.init(trust: authority.trust))
    let server = try TLSServerContext(.init(identity: identity))
    _ = try connect(client, server)
    try server.reload(.init(identity: identity))
    #expect(try connect(client, server).server.isResumed)
  }

  @Test("tickets do not outlive the trust in clients that they were made under")
  func ticketsAreBoundToTrust() throws {
    let clientIdentity = try authority.identity("DNS:qr.internal")
    let client = try TLSClientContext(.init(trust: authority.trust, identity: clientIdentity))
    let server = try TLSServerContext(.init(identity: identity, clientCertificate: .required(authority.trust)))
    _ = try connect(client, server)
    let successor = try TestAuthority(name: "Successor")
    try server.reload(.init(identity: identity, clientCertificate: .required(successor.trust)))
    var pair = try TLSPair(client: client, server: server)
    pair.exchange()
    #expect(!pair.server.isResumed)
    guard case .untrustedCertificate = pair.serverError?.reason else {
      Issue.record("the server saw \(String(describing: pair.serverError))")
      return
    }
  }

  @Test("rotated ticket keys end resumption, not service")
  func rotation() throws {
    let client = try TLSClientContext(.init(trust: authority.trust))
    let server = try TLSServerContext(.init(identity: identity))
    _ = try connect(client, server)
    try server.rotateTicketKeys()
    let second = try connect(client, server)
    #expect(!second.server.isResumed)
    #expect(try connect(client, server).server.isResumed)
  }

  @Test("a client that reloads checks servers under its new trust, without resuming")
  func clientReload() throws {
    let client = try TLSClientContext(.init(trust: authority.trust))
    let server = try TLSServerContext(.init(identity: identity))
    // Its ticket is handed out before the reload, and read after it.
    var late = try TLSPair(client: client, server: server)
    _ = try connect(client, server)
    try client.reload(.init(trust: TestAuthority(name: "Successor").trust))
    late.exchange()
    #expect(late.client.isHandshakeFinished)
    var pair = try TLSPair(client: client, server: server)
    pair.exchange()
    #expect(!pair.server.isResumed)
    guard case .untrustedCertificate = pair.clientError?.reason else {
      Issue.record("the client saw \(String(describing: pair.clientError))")
      return
    }
  }

  @Test("a reload that fails changes nothing")
  func failedReload() throws {
    let server = try TLSServerContext(.init(identity: identity))
    let (certificate, _) = try authority.leaf("DNS:localhost")
    let (_, otherKey) = try authority.leaf("DNS:localhost")
    #expect(throws: TLSError.self) {
      try server.reload(.init(identity: TLSIdentity(certificateChain: certificate, privateKey: otherKey)))
    }
    _ = try connect(TLSClientContext(.init(trust: authority.trust)), server)
  }
}
