import NIOCore
import TLS
import TestSupport
import Testing

/// Random tests print nothing while they pass; a failure names the seed, and `seeds` replays it.
@Suite("Hostile bytes")
struct HostileBytesTests {
  let authority: TestAuthority
  let clients: TLSClientContext
  let servers: TLSServerContext

  init() throws {
    authority = try TestAuthority()
    clients = try TLSClientContext(.init(trust: authority.trust))
    servers = try TLSServerContext(.init(identity: authority.identity("DNS:localhost")))
  }

  static let seeds: Range<UInt64> = 0..<2_000

  @Test("random bytes end a handshake with an error of the peer, or wait for more")
  func randomBytes() throws {
    for seed in Self.seeds {
      var random = SeededRandom(seed: seed)
      let session = try TLSSession(server: servers)
      var plaintext = ByteBuffer()
      let error = feed(session, ByteBuffer(bytes: random.bytes(Int(random.next() % 600))), &plaintext)
      #expect(error == nil || error?.fault == .peer, "seed \(seed): \(String(describing: error))")
      #expect(!session.isHandshakeFinished && plaintext.readableBytes == 0, "seed \(seed)")
    }
  }

  @Test("a handshake with changed bytes never finishes with another peer's plaintext")
  func changedHandshake() throws {
    for seed in Self.seeds {
      var random = SeededRandom(seed: seed)
      let client = try TLSSession(client: clients, host: "localhost")
      let server = try TLSSession(server: servers)
      try client.start()
      var hello = try #require(client.takeOutput())
      for _ in 0...(random.next() % 4) {
        let index = hello.readerIndex + Int(random.next() % UInt64(hello.readableBytes))
        hello.setInteger(UInt8(truncatingIfNeeded: random.next()), at: index)
      }
      var plaintext = ByteBuffer()
      let error = feed(server, hello, &plaintext)
      #expect(error == nil || error?.fault == .peer, "seed \(seed): \(String(describing: error))")
      if let flight = server.takeOutput() {
        let error = feed(client, flight, &plaintext)
        #expect(error == nil || error?.fault == .peer, "seed \(seed): \(String(describing: error))")
      }
      #expect(plaintext.readableBytes == 0, "seed \(seed)")
    }
  }

  @Test("a handshake cut anywhere waits, and its end is no error of ours")
  func truncated() throws {
    let client = try TLSSession(client: clients, host: "localhost")
    try client.start()
    let hello = try #require(client.takeOutput())
    for length in 0..<hello.readableBytes {
      let server = try TLSSession(server: servers)
      var plaintext = ByteBuffer()
      let slice = try #require(hello.getSlice(at: hello.readerIndex, length: length))
      #expect(try server.receive(slice, into: &plaintext) == TLSSession.Progress())
      #expect(server.takeOutput() == nil)
      server.close()
      #expect(server.takeOutput() == nil)
    }
  }

  @Test("random records after the handshake end the session with an error of the peer")
  func randomRecords() throws {
    for seed in Self.seeds.prefix(300) {
      var random = SeededRandom(seed: seed)
      var pair = try TLSPair(client: clients, server: servers)
      pair.exchange()
      var record = ByteBuffer()
      let payload = ByteBuffer(bytes: random.bytes(1 + Int(random.next() % 100)))
      record.writeInteger(UInt8([20, 21, 22, 23, 24][Int(random.next() % 5)]))
      record.writeInteger(UInt16(0x0303))
      record.writeInteger(UInt16(payload.readableBytes))
      record.writeImmutableBuffer(payload)
      let error = feed(pair.server, record, &pair.atServer)
      #expect(error?.fault == .peer, "seed \(seed): \(String(describing: error))")
      #expect(pair.atServer.readableBytes == 0, "seed \(seed)")
    }
  }

  @Test("a record longer than the protocol allows is refused before its body comes")
  func oversizedRecord() throws {
    let session = try TLSSession(server: servers)
    var plaintext = ByteBuffer()
    let header = ByteBuffer(bytes: [22, 3, 1, 0xff, 0xff, 1])
    #expect(throws: TLSError.self) { try session.receive(header, into: &plaintext) }
  }

  private func feed(_ session: TLSSession, _ bytes: ByteBuffer, _ plaintext: inout ByteBuffer) -> TLSError? {
    do throws(TLSError) {
      _ = try session.receive(bytes, into: &plaintext)
      return nil
    } catch {
      return error
    }
  }
}
