import NIOCore
import TLS
import TestSupport

@testable import TransportServer

/// A whole connection of a server by TLS: records that no client makes, and those of a client of which a byte is another
/// on the way, which are cut as the network likes and whose answers may fail to be written.
///
/// The first byte of the input is the first write that fails (255: none), the second has the choices below, the third and
/// fourth say which byte of the client's is changed, the fifth how (0: not at all). The others are what the client says
/// within TLS, or in its place, the first of them the size of the reads, 0 for one read of each flight.
struct TLSRecordsTarget: FuzzTarget {
  let name = "tls-records"

  private static let server: TLSServerContext = {
    do {
      return try TLSServerContext(.init(identity: TestAuthority().identity("DNS:localhost")))
    } catch {
      preconditionFailure("no certificate: \(error)")
    }
  }()

  /// What the second byte says.
  private struct Choices: OptionSet {
    let rawValue: UInt8
    static let raw = Choices(rawValue: 1)
    static let endsItsSide = Choices(rawValue: 2)
    static let tls12 = Choices(rawValue: 4)
    static let http1 = Choices(rawValue: 8)
    static let resumes = Choices(rawValue: 16)
    static let saysGoodbye = Choices(rawValue: 32)
  }

  func run(_ input: UnsafeRawBufferPointer) {
    guard input.count > 6 else { return }
    // In bounds by the line above.
    let failing = unsafe input[0] == 255 ? Int.max : Int(input[0])
    let choices = unsafe Choices(rawValue: input[1])
    let change = unsafe (position: Int(input[2]) << 8 | Int(input[3]), mask: input[4])
    // Copied.
    let said = unsafe ByteBuffer(bytes: input[6...])
    let size = unsafe Int(input[5])
    guard !choices.contains(.raw) else {
      return talk(FuzzedConnection(failing: failing, tls: Self.server), choices) { connection in
        for piece in pieces(said, size) { connection.receive(piece) }
      }
    }
    let clients = clients(choices)
    if choices.contains(.resumes) {
      talk(FuzzedConnection(failing: .max, tls: Self.server), choices) { connection in
        let client = Client(clients, connection)
        client.handshake()
        client.say(ByteBuffer(string: "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"))
      }
    }
    talk(FuzzedConnection(failing: failing, tls: Self.server), choices) { connection in
      let client = Client(clients, connection)
      client.change = change
      client.readSize = size
      client.handshake()
      for piece in pieces(said, 200) { client.say(piece) }
      if choices.contains(.saysGoodbye) { client.close() }
      let isSound = change.mask == 0 && failing == .max
      precondition(!isSound || client.failure == nil, "the client cannot read what the server says")
    }
  }

  private func talk(_ connection: FuzzedConnection, _ choices: Choices, _ body: (FuzzedConnection) -> Void) {
    body(connection)
    if choices.contains(.endsItsSide) { connection.receiveEnd() }
    connection.finish()
  }

  private func clients(_ choices: Choices) -> TLSClientContext {
    do {
      return try TLSClientContext(
        .init(
          trust: .anyone,
          maximumVersion: choices.contains(.tls12) ? .tls12 : .tls13,
          protocols: choices.contains(.http1) ? [.http1] : [.http2]
        )
      )
    } catch {
      preconditionFailure("no context: \(error)")
    }
  }

  private func pieces(_ bytes: ByteBuffer, _ size: Int) -> [ByteBuffer] {
    var rest = bytes
    var pieces: [ByteBuffer] = []
    while let piece = rest.readSlice(length: min(size == 0 ? rest.readableBytes : size, rest.readableBytes)),
      piece.readableBytes > 0
    {
      pieces.append(piece)
    }
    return pieces
  }

  /// A client that keeps to the rules; the way to the server may not.
  private final class Client {
    var change = (position: Int.max, mask: UInt8(0))
    var readSize = 0
    private(set) var failure: TLSError?
    private let session: TLSSession
    private let connection: FuzzedConnection
    private var sent = 0
    private var heard = 0

    init(_ clients: TLSClientContext, _ connection: FuzzedConnection) {
      do {
        session = try TLSSession(client: clients, host: "localhost")
      } catch {
        preconditionFailure("no session: \(error)")
      }
      self.connection = connection
    }

    func handshake() {
      attempt { () throws(TLSError) in try session.start() }
      exchange()
    }

    func say(_ plaintext: ByteBuffer) {
      guard failure == nil, session.isHandshakeFinished else { return }
      attempt { () throws(TLSError) in try session.send(plaintext) }
      exchange()
    }

    func close() {
      session.close()
      exchange()
    }

    /// Hands bytes over until both sides are silent.
    private func exchange() {
      var isSilent = false
      while !isSilent {
        isSilent = true
        if let output = session.takeOutput() {
          isSilent = false
          send(output)
        }
        let answers = connection.socket.answers
        guard heard < answers.count, failure == nil else { continue }
        isSilent = false
        let new = ByteBuffer(bytes: answers[heard...])
        heard = answers.count
        var plaintext = ByteBuffer()
        attempt { () throws(TLSError) in _ = try session.receive(new, into: &plaintext) }
      }
    }

    private func send(_ output: ByteBuffer) {
      var bytes = Array(output.readableBytesView)
      let index = change.position - sent
      if bytes.indices.contains(index) { bytes[index] ^= change.mask }
      sent += bytes.count
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = readSize == 0 ? rest.count : readSize
        connection.receive(ByteBuffer(bytes: rest.prefix(count)))
        rest = rest.dropFirst(count)
      }
    }

    private func attempt(_ body: () throws(TLSError) -> Void) {
      do throws(TLSError) { try body() } catch { failure = failure ?? error }
    }
  }
}
