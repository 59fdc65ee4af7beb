import Callers
import GRPC
import Logging
import NIOCore
import NIOEmbedded
import Synchronization
import Testing
import Transport

@testable import TransportServer

@Suite("Bytes that were received and not worked on")
struct UnworkedBytesTests {
  /// A connection without a socket, by a clock that the test turns.
  private final class Harness {
    let channel = EmbeddedChannel()
    let turns: LoopTurns
    let environment: ServerEnvironment
    /// Of whoever connects.
    let account = SourceAccount()

    init() {
      environment = ServerEnvironment(
        configuration: RPCServer.Configuration(host: "127.0.0.1", port: 0),
        router: Router([]),
        interceptors: [],
        pages: PageTable([]),
        statusDetailsEncoder: { _ in nil },
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
      )
      turns = LoopTurns(channel.eventLoop)
      channel.embeddedEventLoop.advanceTime(by: .seconds(1))
    }

    deinit {
      _ = try? channel.close().wait()
      channel.embeddedEventLoop.advanceTime(by: .seconds(1))
      _ = try? channel.finish(acceptAlreadyClosed: true)
    }

    func connect() throws { try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait() }

    /// Begins a connection of HTTP/2.
    func greet() throws {
      let connection = ServerConnection(
        environment: environment,
        executor: EventLoopTaskExecutor(turns),
        peer: ConnectionPeer(Peer(address: "127.0.0.1", port: 1), account: account)
      )
      try channel.pipeline.syncOperations.addHandler(connection)
      try connect()
      try receive(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(4) + frame(4, flags: 1))
      _ = try sent()
    }

    func receive(_ bytes: [UInt8]) throws {
      try channel.writeInbound(ByteBuffer(bytes: bytes))
      channel.embeddedEventLoop.run()
    }

    func frame(_ type: UInt8, flags: UInt8 = 0, _ payload: [UInt8] = []) -> [UInt8] {
      [0, UInt8(payload.count >> 8), UInt8(payload.count & 0xff), type, flags, 0, 0, 0, 0] + payload
    }

    /// A frame of a type that nobody knows.
    func filler(_ count: Int) -> [UInt8] { frame(0xaa, [UInt8](repeating: 7, count: count)) }

    /// The loop works for others, and has no time left until it has looked at its sockets.
    func workForOthers() {
      turns.worked(from: channel.eventLoop.now - Limits.promptWork, until: channel.eventLoop.now)
    }

    func letTurnsPass() { channel.embeddedEventLoop.advanceTime(by: .milliseconds(100)) }

    /// The source holds more than its share by a byte.
    func shed() {
      let shed = ServerShed(calls: [], bytes: [ServerShed.Excess(account, 1)])
      channel.pipeline.fireUserInboundEventTriggered(shed)
      channel.embeddedEventLoop.run()
    }

    /// What the server's budget knows of, of all and of who connects.
    var counted: [Int] { [environment.budget.usage.bufferedBytes, account.bytes.load(ordering: .relaxed)] }

    /// The types of the frames that the server has sent since the last time, and the code of a GOAWAY.
    func sent() throws -> (types: [UInt8], code: UInt32?) {
      var bytes = ByteBuffer()
      while var some = try channel.readOutbound(as: ByteBuffer.self) { bytes.writeBuffer(&some) }
      var types: [UInt8] = []
      var code: UInt32?
      while let head = bytes.readBytes(length: 9) {
        let payload = bytes.readBytes(length: Int(head[1]) << 8 | Int(head[2])) ?? []
        types.append(head[3])
        if head[3] == 7 { code = payload.dropFirst(4).prefix(4).reduce(0) { $0 << 8 | UInt32($1) } }
      }
      return (types, code)
    }
  }

  private static let goAway: UInt8 = 7, enhanceYourCalm: UInt32 = 11

  @Test("A frame that has not ended counts as far as it has come, and no more once it is whole")
  func halfFrame() throws {
    let harness = Harness()
    try harness.greet()
    #expect(harness.counted == [0, 0])
    let frame = harness.filler(16_000)
    try harness.receive(Array(frame.prefix(6_000)))
    #expect(harness.counted == [6_000, 6_000])
    try harness.receive(Array(frame[6_000..<12_000]))
    #expect(harness.counted == [12_000, 12_000])
    try harness.receive(Array(frame.dropFirst(12_000)))
    #expect(harness.counted == [0, 0])
    // So does the next one, which begins in the read that ends this one.
    try harness.receive(frame + frame.prefix(5_000))
    #expect(harness.counted == [5_000, 5_000])
    try harness.receive(Array(frame.dropFirst(5_000)))
    #expect(harness.counted == [0, 0] && harness.channel.isActive)
  }

  @Test("What counted in small steps is given back in small steps, also where something stays")
  func givenBack() throws {
    let harness = Harness()
    try harness.greet()
    // As of a call's fields.
    try harness.channel.pipeline.syncOperations.handler(type: ServerConnection.self).heldBytes = 1_000
    harness.channel.pipeline.fireUserInboundEventTriggered(TLSRecordWaits(bytes: 12_000))
    #expect(harness.counted == [13_000, 13_000])
    harness.channel.pipeline.fireUserInboundEventTriggered(TLSRecordWaits(bytes: 0))
    #expect(harness.counted == [1_000, 1_000])
  }

  @Test("What TLS keeps of a record that has not ended counts, and is given up for others", arguments: [true, false])
  func unfinishedRecord(isShed: Bool) throws {
    let harness = Harness()
    try harness.greet()
    harness.channel.pipeline.fireUserInboundEventTriggered(TLSRecordWaits(bytes: 16_000))
    #expect(harness.counted == [16_000, 16_000])
    if isShed {
      harness.shed()
      harness.letTurnsPass()
      #expect(!harness.channel.isActive)
    } else {
      harness.channel.pipeline.fireUserInboundEventTriggered(TLSRecordWaits(bytes: 0))
      #expect(harness.channel.isActive)
    }
    #expect(harness.counted == [0, 0])
  }

  @Test("The fields of a header block that has not ended count, and are given up for others", arguments: [true, false])
  func openBlock(isShed: Bool) throws {
    let harness = Harness()
    try harness.greet()
    // RFC 7541 §6.2.2: without indexing, a new name, both strings as they are.
    let field: [UInt8] = [0, 1, 0x78, 127, 128 + 1, 7] + [UInt8](repeating: 0x76, count: 127 + 1 + 7 * 128)
    var headers = harness.frame(1, field + field + field)
    headers[8] = 1
    try harness.receive(headers)
    let once = harness.counted[0]
    #expect(once >= 3_000 && harness.counted == [once, once])
    var continuation = harness.frame(9, field + field + field)
    continuation[8] = 1
    try harness.receive(continuation)
    #expect(harness.counted[0] >= 6_000)
    if isShed {
      harness.shed()
      harness.letTurnsPass()
      #expect(!harness.channel.isActive)
    } else {
      // It was no request, and its stream ends with it.
      var end = harness.frame(9, flags: 4, field)
      end[8] = 1
      try harness.receive(end)
      #expect(harness.channel.isActive)
    }
    #expect(harness.counted == [0, 0])
  }

  @Test("What waits for a turn counts until the turn has come")
  func rest() throws {
    let harness = Harness()
    try harness.greet()
    harness.workForOthers()
    let read = harness.filler(Limits.promptBytes)
    try harness.receive(read)
    #expect(harness.counted == [read.count, read.count])
    try harness.receive(read)
    #expect(harness.counted == [2 * read.count, 2 * read.count])
    harness.letTurnsPass()
    #expect(harness.counted == [0, 0] && harness.channel.isActive)
  }

  @Test("What waits for a turn for which the peer leaves no room counts as long as it waits")
  func restOfDeafPeer() throws {
    let harness = Harness()
    try harness.greet()
    harness.workForOthers()
    let read = harness.filler(Limits.promptBytes)
    try harness.receive(read)
    harness.channel.isWritable = false
    harness.channel.pipeline.fireChannelWritabilityChanged()
    harness.letTurnsPass()
    #expect(harness.counted == [read.count, read.count])
    harness.shed()
    #expect(!harness.channel.isActive)
    harness.letTurnsPass()
    #expect(harness.counted == [0, 0])
  }

  @Test("A connection that ends gives back once what it had not worked on", arguments: [true, false])
  func end(isFrame: Bool) throws {
    let harness = Harness()
    try harness.greet()
    if !isFrame { harness.workForOthers() }
    let frame = harness.filler(4_000)
    try harness.receive(isFrame ? Array(frame.dropLast()) : frame)
    #expect(harness.counted.allSatisfy { $0 >= 4_000 })
    harness.channel.close(promise: nil)
    harness.letTurnsPass()
    #expect(harness.counted == [0, 0])
  }

  @Test("What was to be given up is not when the server has looked again, unless it asks for it again")
  func overAgain() throws {
    let harness = Harness()
    try harness.greet()
    try harness.receive(Array(harness.filler(8_000).dropLast()))
    let pipeline = harness.channel.pipeline
    let shed = ServerShed(calls: [], bytes: [ServerShed.Excess(harness.account, 1)])
    shed.end()
    pipeline.fireUserInboundEventTriggered(shed)
    harness.letTurnsPass()
    #expect(harness.channel.isActive)
    // Asked twice before there is time, the first time in vain.
    harness.workForOthers()
    let newer = ServerShed(calls: [], bytes: [ServerShed.Excess(harness.account, 1)])
    pipeline.fireUserInboundEventTriggered(shed)
    pipeline.fireUserInboundEventTriggered(newer)
    #expect(harness.channel.isActive)
    harness.letTurnsPass()
    #expect(!harness.channel.isActive && harness.counted == [0, 0])
  }

  /// Takes whole rounds.
  private final class Busy: TurnTaker {
    let source = TurnSource.address(nil)
    let isBegun = false
    private let loop: EmbeddedEventLoop

    init(_ loop: EmbeddedEventLoop) {
      self.loop = loop
    }

    func takeTurn(until end: NIODeadline) -> Bool {
      loop.advanceTime(by: Limits.round)
      return false
    }
  }

  @Test("A source that holds too much in halves of frames, or in what waits, gives it up", arguments: [true, false])
  func shedding(isFrame: Bool) throws {
    let harness = Harness()
    try harness.greet()
    // Where it holds next to nothing its connection is left alone.
    try harness.receive(Array(harness.filler(4_000).prefix(100)))
    harness.shed()
    #expect(harness.channel.isActive)
    try harness.receive([UInt8](repeating: 7, count: 4_009 - 100))
    let other = Busy(harness.channel.embeddedEventLoop)
    if !isFrame {
      // It is not its turn for a while.
      harness.turns.wait(other)
      harness.workForOthers()
    }
    try harness.receive(isFrame ? Array(harness.filler(4_000).dropLast()) : harness.filler(4_000))
    #expect(harness.counted.allSatisfy { $0 >= 4_000 })
    harness.shed()
    harness.letTurnsPass()
    #expect(!harness.channel.isActive && harness.counted == [0, 0])
    let sent = try harness.sent()
    #expect(sent.types == [Self.goAway] && sent.code == Self.enhanceYourCalm)
  }

  @Test("R50: a connection that a proxy hands on takes its turns as the client's that it names")
  func proxied() throws {
    let harness = Harness()
    let executor = EventLoopTaskExecutor(harness.turns, of: .address(.v4(0x7f00_0001)))
    try harness.channel.pipeline.syncOperations.addHandler(
      ProtocolDetector(environment: harness.environment, executor: executor))
    try harness.connect()
    _ = harness.environment.budget.table.admit(harness.channel, from: .v4(0x7f00_0001))
    func announce(_ header: ProxyHeader) {
      guard case .present(_, let client) = header else { return }
      harness.channel.pipeline.fireUserInboundEventTriggered(ProxyHeaderRead(client: client))
    }
    announce(ProxyHeader.parse(Array("PROXY UNKNOWN\r\n".utf8)))
    #expect(executor.source == .address(.v4(0x7f00_0001)))
    announce(ProxyHeader.parse(Array("PROXY TCP4 127.0.7.1 127.0.0.1 5 6\r\n".utf8)))
    #expect(executor.source == .address(.v4(0x7f00_0701)))
  }

  @Test("What waits with a handshake counts until that goes on or its connection ends, and is given up for others")
  func handshake() throws {
    for isShed in [false, true] {
      let harness = Harness()
      let detector = ProtocolDetector(environment: harness.environment, executor: EventLoopTaskExecutor(harness.turns))
      let pipeline = harness.channel.pipeline.syncOperations
      try pipeline.addHandler(detector)
      try harness.connect()
      harness.channel.remoteAddress = try SocketAddress(ipAddress: "127.0.7.1", port: 1)
      let context = try pipeline.context(handler: detector)
      detector.countWaiting(3_000, context)
      detector.countWaiting(5_000, context)
      let accounts = harness.environment.budget.sources.all
      #expect(accounts.map { $0.bytes.load(ordering: .relaxed) } == [5_000])
      #expect(harness.environment.budget.usage.bufferedBytes == 5_000)
      if isShed {
        let excess = accounts.map { ServerShed.Excess($0, 1) }
        harness.channel.pipeline.fireUserInboundEventTriggered(ServerShed(calls: [], bytes: excess))
      } else {
        detector.countWaiting(0, context)
        #expect(harness.environment.budget.usage.bufferedBytes == 0 && harness.channel.isActive)
        detector.countWaiting(4_000, context)
        harness.channel.close(promise: nil)
      }
      harness.letTurnsPass()
      #expect(!harness.channel.isActive)
      #expect(accounts.map { $0.bytes.load(ordering: .relaxed) } == [0])
      #expect(harness.environment.budget.usage.bufferedBytes == 0)
    }
  }
}
