import NIOCore
import TLS
import TestSupport
import Testing

@Suite("An open TLS session")
struct TransferTests {
  let authority: TestAuthority
  let clients: TLSClientContext
  let servers: TLSServerContext

  init() throws {
    authority = try TestAuthority()
    clients = try TLSClientContext(.init(trust: authority.trust))
    servers = try TLSServerContext(.init(identity: authority.identity("DNS:localhost")))
  }

  func open() throws -> TLSPair {
    var pair = try TLSPair(client: clients, server: servers)
    pair.exchange()
    #expect(pair.client.isHandshakeFinished && pair.server.isHandshakeFinished)
    return pair
  }

  @Test("carries what is sent, whatever its size", arguments: [1, 16_383, 16_384, 16_385, 100_000, 1_000_000])
  func carries(size: Int) throws {
    var pair = try open()
    let bytes = ByteBuffer(bytes: (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    try pair.client.send(bytes)
    try pair.server.send(bytes)
    pair.exchange()
    #expect(pair.atServer == bytes && pair.atClient == bytes)
  }

  @Test("does not mind where the bytes are cut", arguments: [1, 2, 5, 7, 100])
  func cuts(length: Int) throws {
    let pair = try TLSPair(client: clients, server: servers)
    var atServer = ByteBuffer()
    var atClient = ByteBuffer()
    try pair.client.start()
    var isSent = false
    while true {
      let toServer = pair.client.takeOutput()
      let toClient = pair.server.takeOutput()
      if toServer == nil, toClient == nil { break }
      for (bytes, session) in [(toServer, pair.server), (toClient, pair.client)] {
        var rest = bytes ?? ByteBuffer()
        while let slice = rest.readSlice(length: min(length, rest.readableBytes)), slice.readableBytes > 0 {
          if session === pair.server {
            _ = try session.receive(slice, into: &atServer)
          } else {
            _ = try session.receive(slice, into: &atClient)
          }
        }
      }
      if pair.client.isHandshakeFinished, !isSent {
        isSent = true
        try pair.client.send(ByteBuffer(string: "in pieces"))
      }
    }
    #expect(atServer == ByteBuffer(string: "in pieces"))
  }

  @Test("says once when the handshake is finished, and when the peer closes")
  func progress() throws {
    let pair = try TLSPair(client: clients, server: servers)
    var plaintext = ByteBuffer()
    try pair.client.start()
    let hello = try #require(pair.client.takeOutput())
    #expect(try pair.server.receive(hello, into: &plaintext) == TLSSession.Progress())
    let flight = try #require(pair.server.takeOutput())
    #expect(
      try pair.client.receive(flight, into: &plaintext)
        == TLSSession.Progress(isHandshakeFinished: true, isClosedByPeer: false)
    )
    try pair.client.send(ByteBuffer(string: "early"))
    pair.client.close()
    let rest = try #require(pair.client.takeOutput())
    #expect(
      try pair.server.receive(rest, into: &plaintext)
        == TLSSession.Progress(isHandshakeFinished: true, isClosedByPeer: true)
    )
    #expect(plaintext == ByteBuffer(string: "early"))
    // What comes after the end is not looked at.
    #expect(
      try pair.server.receive(ByteBuffer(string: "noise"), into: &plaintext)
        == TLSSession.Progress(isHandshakeFinished: false, isClosedByPeer: true)
    )
    #expect(plaintext == ByteBuffer(string: "early"))
  }

  @Test("sends nothing before the handshake and after the end")
  func sendOutOfTurn() throws {
    let session = try TLSSession(server: servers)
    #expect(throws: TLSError(.send, .us, .closed)) { try session.send(ByteBuffer(string: "x")) }
    let pair = try open()
    pair.client.close()
    #expect(throws: TLSError(.send, .us, .closed)) { try pair.client.send(ByteBuffer(string: "x")) }
  }

  @Test("a changed byte in a record ends it with bad_record_mac")
  func changedRecord() throws {
    var pair = try open()
    try pair.client.send(ByteBuffer(string: "a payment"))
    var record = try #require(pair.client.takeOutput())
    let last = try #require(record.getInteger(at: record.writerIndex - 1, as: UInt8.self))
    record.setInteger(last ^ 1, at: record.writerIndex - 1)
    #expect(throws: TLSError.self) { try pair.server.receive(record, into: &pair.atServer) }
    #expect(pair.atServer.readableBytes == 0)
    pair.exchange()
    #expect(pair.clientError?.reason == .alert(20))
  }

  @Test("HTTP in the clear is told apart from TLS")
  func cleartext() throws {
    for request in ["GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
      let session = try TLSSession(server: servers)
      var plaintext = ByteBuffer()
      #expect(throws: TLSError(.handshake, .peer, .notTLS)) {
        try session.receive(ByteBuffer(string: request), into: &plaintext)
      }
    }
  }
}
