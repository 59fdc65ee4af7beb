import NIOCore
import Testing

@testable import HTTP2

@Suite struct HTTP2ServerSessionTests {
  /// A pair whose server answers `ping` directly with `pong`, and everything else by a handler.
  private func directPair() throws -> SessionPair {
    let pair = try SessionPair(common: SessionPair.common)
    pair.serverEvents.direct = { body in body == Array("ping".utf8) ? ByteBuffer(string: "pong") : nil }
    pair.serverEvents.onEnd = { [unowned server = pair.server] stream in
      server.respond(stream, nil)
      server.write(stream, ByteBuffer(string: "handled"))
      server.finishCommon(stream)
    }
    return pair
  }

  private func call(_ pair: SessionPair, _ body: String, path: String = "/a") throws -> RecordingHandler {
    let handler = RecordingHandler()
    let stream = try pair.request(handler, path: path, endStream: false)
    pair.client.write(stream, ByteBuffer(string: body))
    pair.client.finish(stream)
    try pair.run()
    return handler
  }

  @Test("A short request is answered in its read pass, like any other on the wire, and needs no handler")
  func directAnswer() throws {
    let pair = try directPair()
    for _ in 0..<5 {
      let direct = try call(pair, "ping")
      #expect(direct.fields == [":status: 200", "content-type: application/grpc", "grpc-status: 0"])
      #expect(direct.body == Array("pong".utf8))
      #expect(direct.closed == .noError)
    }
    #expect(pair.serverEvents.opened.isEmpty)
    let handled = try call(pair, "else")
    #expect(handled.fields == [":status: 200", "content-type: application/grpc", "grpc-status: 0"])
    #expect(handled.body == Array("handled".utf8))
    #expect(pair.serverEvents.opened.map(\.handler.body) == [Array("else".utf8)])
    #expect(pair.server.openStreams == 0)
    #expect(pair.server.undecided == 0)
  }

  @Test("What a burst of streams leaves behind for the next ones can be freed, and calls go on as before")
  func spares() throws {
    let pair = try directPair()
    for _ in 0..<2 {
      let handlers = (0..<50).map { _ in RecordingHandler() }
      for handler in handlers {
        let stream = try pair.request(handler, endStream: false)
        pair.client.write(stream, ByteBuffer(string: "else"))
        pair.client.finish(stream)
      }
      try pair.run()
      #expect(handlers.allSatisfy { $0.body == Array("handled".utf8) && $0.closed == .noError })
      #expect(pair.server.hasSpares)
      weak let spare = pair.serverEvents.opened.last?.stream
      pair.serverEvents.opened = []
      pair.server.freeSpares()
      #expect(!pair.server.hasSpares && spare == nil)
      // With a stream open there are fewer to free.
      let open = RecordingHandler()
      let stream = try pair.request(open, endStream: false)
      try pair.run()
      pair.server.freeSpares()
      pair.client.write(stream, ByteBuffer(string: "ping"))
      pair.client.finish(stream)
      try pair.run()
      #expect(open.body == Array("pong".utf8))
    }
  }

  @Test("What a request says counts while its body is to come, and no more however the wait ends", arguments: 0..<5)
  func undecidedBytes(end: Int) throws {
    let pair = try directPair()
    let path = "/" + String(repeating: "a", count: 3_000)
    let streams = try (0..<10).map { _ in try pair.request(RecordingHandler(), path: path, endStream: false) }
    try pair.run()
    #expect(pair.server.undecided == 10 && pair.server.undecidedBytes >= 10 * 3_000)
    #expect(pair.server.bufferedBytes >= pair.server.undecidedBytes)
    switch end {
    case 0, 1:
      for stream in streams {
        pair.client.write(stream, ByteBuffer(string: end == 0 ? "ping" : "else"))
        pair.client.finish(stream)
      }
    case 2: for stream in streams { pair.client.reset(stream, .cancel) }
    case 3: #expect(pair.server.decide(openedUpTo: .distantFuture) == nil)
    default: pair.server.abandon()
    }
    if end < 4 { try pair.run() }
    #expect(pair.server.undecided == 0 && pair.server.undecidedBytes == 0)
  }

  @Test("Blocks that are remembered are forgotten where they stand for much, and decoded again")
  func spareBlocks() throws {
    let pair = try directPair()
    for number in 0..<4 { _ = try call(pair, "ping", path: "/\(number)") }
    #expect(!pair.server.remembersMuch)
    let long = String(repeating: "a", count: 700)
    for number in 0..<4 { _ = try call(pair, "ping", path: "/\(number)\(long)") }
    #expect(pair.server.remembersMuch)
    pair.server.forgetBlocks()
    #expect(!pair.server.remembersMuch)
    #expect(try call(pair, "ping").body == Array("pong".utf8))
  }

  @Test("A body in two frames, and one that is cut off, are a handler's business")
  func undecided() throws {
    let pair = try directPair()
    let handler = RecordingHandler()
    let stream = try pair.request(handler, endStream: false)
    try pair.run()
    #expect(pair.server.undecided == 1)
    #expect(pair.serverEvents.opened.isEmpty)
    pair.client.write(stream, ByteBuffer(string: "pi"))
    try pair.run()
    #expect(pair.server.undecided == 0)
    #expect(pair.serverEvents.opened.count == 1)
    pair.client.write(stream, ByteBuffer(string: "ng"))
    pair.client.finish(stream)
    try pair.run()
    #expect(handler.body == Array("handled".utf8))

    let given = RecordingHandler()
    let lost = try pair.request(given, endStream: false)
    try pair.run()
    #expect(pair.server.undecided == 1)
    pair.client.reset(lost, .cancel)
    try pair.run()
    #expect(pair.server.undecided == 0)
    #expect(pair.server.openStreams == 0)

    let now = pair.server.now
    _ = try pair.request(RecordingHandler(), endStream: false)
    try pair.run()
    // It has not waited for as long.
    #expect(pair.server.decide(openedUpTo: now - .nanoseconds(1)) == now)
    #expect(pair.server.undecided == 1)
    #expect(pair.server.decide(openedUpTo: now) == nil)
    #expect(pair.server.undecided == 0)
    #expect(pair.serverEvents.opened.count == 2)
  }

  @Test(
    "A refusal is one frame, without a handler or a reset, whatever table the peer allows and others change",
    arguments: [nil, 0, 300] as [UInt32?])
  func refusals(table: UInt32?) throws {
    var common = SessionPair.common
    common.refusal = common.head
    common.refusal.add("grpc-status", "8")
    common.refusal.add("grpc-message", String(repeating: "no", count: 50))
    let peer = try ScriptedPeer(common: common)
    if let table { peer.settings(1, table) }
    peer.events.turnsAway = true
    var served = 0
    peer.events.onEnd = { [unowned server = peer.server] stream in
      served += 1
      var fields = HTTP2FieldList()
      fields.add(":status", "200")
      fields.add("served", String(served))
      server.respond(stream, fields, endStream: true)
    }
    var decoder = try HeaderDecoder()
    for number in 0..<60 {
      let isLate = number % 20 != 19
      peer.server.lateness = isLate ? .milliseconds(1001) : .seconds(1)
      let stream = Int32(2 * number + 1)
      peer.request(stream, end: false)
      peer.send(.data, flags: FrameFlag.endStream, stream: stream, [1])
      let frames = peer.received().filter { $0.stream == stream }
      #expect(frames.map(\.type) == [FrameType.headers.rawValue])
      var fields: [String] = []
      let isWhole = unsafe frames[0].payload.withUnsafeBytes { block in
        unsafe decoder.decode(block, isLast: true) { name, value in
          unsafe fields.append("\(String(decoding: name, as: UTF8.self)): \(String(decoding: value, as: UTF8.self))")
        }
      }
      #expect(isWhole)
      if isLate {
        #expect(fields.dropFirst(2).first == "grpc-status: 8" && fields.count == 4)
        #expect(fields.last == "grpc-message: " + String(repeating: "no", count: 50))
      } else {
        #expect(fields == [":status: 200", "served: \(served)"])
      }
    }
    #expect(served == 3 && peer.events.opened.count == 3)
    #expect(peer.server.openStreams == 0 && peer.server.undecided == 0)
  }

  @Test("Bodies are foreseen in their order, each once and before its turn, some at a time")
  func foresight() throws {
    let pair = try SessionPair(common: SessionPair.common)
    var foreseen: [String] = []
    var answered: [String] = []
    var ahead = 0
    pair.serverEvents.direct = { body in
      answered.append(String(decoding: body, as: UTF8.self))
      // With the one whose turn it is; the first was not foreseen.
      ahead = max(ahead, foreseen.count - (answered.count - 2))
      return ByteBuffer(string: "pong")
    }
    pair.serverEvents.foresee = { body in
      foreseen.append(String(decoding: body, as: UTF8.self))
      return true
    }
    let sent = (0..<20).map { "body \($0)" }
    for body in sent {
      let stream = try pair.request(RecordingHandler(), endStream: false)
      pair.client.write(stream, ByteBuffer(string: body))
      pair.client.finish(stream)
    }
    try pair.run()
    #expect(answered == sent)
    // Only what follows an answer within the same bytes.
    #expect(foreseen == Array(sent.dropFirst()))
    #expect(ahead == Limits.foreseenBodies)
  }

  @Test("A delegate that wants to foresee nothing is asked once for each piece of input")
  func noForesight() throws {
    let pair = try SessionPair(common: SessionPair.common)
    var asked = 0
    pair.serverEvents.direct = { _ in ByteBuffer(string: "pong") }
    pair.serverEvents.foresee = { _ in
      asked += 1
      return false
    }
    for _ in 0..<2 {
      for _ in 0..<5 {
        let stream = try pair.request(RecordingHandler(), endStream: false)
        pair.client.write(stream, ByteBuffer(string: "ping"))
        pair.client.finish(stream)
      }
      try pair.run()
    }
    #expect(asked == 2)
  }

  @Test("A direct answer waits for the windows like any other")
  func directAnswerWaits() throws {
    let pair = try directPair()
    try limitStreams(of: pair, to: 2)
    let handler = try call(pair, "ping")
    #expect(handler.body == Array("po".utf8))
    #expect(handler.closed == nil)
    #expect(!pair.server.wantsToWrite)
    // WINDOW_UPDATE on stream 1.
    pair.feed([0, 0, 4, 8, 0, 0, 0, 0, 1, 0, 0, 0, 5], to: pair.server)
    try pair.run()
    #expect(handler.body == Array("pong".utf8))
    #expect(handler.closed == .noError)
  }

  @Test("An answer that waits for a window keeps nothing of what was asked, and may be cancelled freely")
  func waitingAnswerKeepsLittle() throws {
    let peer = try ScriptedPeer()
    peer.events.direct = { _ in ByteBuffer(string: "pong") }
    peer.events.makesMeanings = true
    peer.settings(4, 0)
    let fields = (0..<40).map { ("x-\($0)", String(repeating: "y", count: 100)) }
    // More often than calls may be cancelled whose answers were not waited for.
    for round in 0..<5 {
      let streams = (100 * round..<100 * round + 100).map { Int32(2 * $0 + 1) }
      for stream in streams {
        peer.request(stream, fields, end: false)
        peer.send(.data, flags: FrameFlag.endStream, stream: stream, Array("ping".utf8))
      }
      weak let last = peer.events.meanings.last
      peer.events.meanings = []
      #expect(peer.server.openStreams == 100 && peer.server.undecided == 0 && peer.server.undecidedBytes == 0)
      #expect(last == nil)
      for stream in streams { peer.send(.reset, stream: stream, ScriptedPeer.big(8)) }
      #expect(peer.server.failure == nil && peer.server.openStreams == 0)
    }
  }

  @Test("A refusal that is still to go out keeps nothing of what was asked, and a block that is open counts its memory")
  func refusalKeepsLittle() throws {
    let peer = try ScriptedPeer()
    (peer.events.turnsAway, peer.events.makesMeanings) = (true, true)
    peer.server.lateness = .milliseconds(1001)
    let fields = (0..<25).map { ("x-\($0)", String(repeating: "y", count: 100)) }
    peer.request(1, fields, end: false)
    #expect(peer.server.undecided == 1)
    peer.send(.data, stream: 1, [1])
    weak let meaning = peer.events.meanings.last
    peer.events.meanings = []
    #expect(peer.server.openStreams == 1 && peer.server.undecided == 0 && meaning == nil)
    // Its fields need little more than what is kept for usual ones.
    peer.send(.headers, stream: 3, ScriptedPeer.block(ScriptedPeer.usual + fields))
    #expect(peer.server.partialBytes >= Limits.largeFieldCapacity)
  }

  @Test("A session that is told to stop leaves the rest, between two frames, and goes on with it as if nothing was")
  func stops() throws {
    let pair = try SessionPair()
    try pair.run()
    // PING frames with a payload of their own each, the last one cut.
    let count = 3 * (Limits.bytesBetweenLooks / (Limits.frameOverhead + 8) + 1)
    var bytes = (0..<count).flatMap { [0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, UInt8($0)] as [UInt8] }
    let tail = bytes.suffix(5)
    bytes.removeLast(5)
    pair.serverEvents.mayGoOn = false
    var rounds = 0
    repeat {
      pair.feed(bytes, to: pair.server)
      bytes = Array(bytes.suffix(pair.server.untaken))
      rounds += 1
    } while !bytes.isEmpty && rounds < 10
    #expect(rounds == 3)
    #expect(pair.server.failure == nil)
    pair.feed(Array(tail), to: pair.server)
    #expect(pair.server.untaken == 0)
    #expect(pair.serverEvents.pings.map(\.payload) == (0..<UInt64(count)).map { $0 })
  }

  @Test("A session that is told to stop does so behind a few bytes that stand for many, although their body is to come")
  func stopsAtLongBlocks() throws {
    let peer = try ScriptedPeer()
    peer.events.direct = { _ in nil }
    let usual = ScriptedPeer.block(ScriptedPeer.usual)
    // RFC 7541 §6.2.1: a literal of 3,000 bytes that is added, then four times the same by its number.
    let long = [0x7f, 0xb9, 0x16] + Array(repeating: UInt8(ascii: "y"), count: 3_000)
    let added = usual + [0x40, 1] + Array("x".utf8) + long
    let again = usual + Array(repeating: 0x80 | 62, count: 4)
    peer.send(.headers, flags: FrameFlag.endHeaders, stream: 1, added)
    let asked = stride(from: Int32(3), to: 23, by: 2).map {
      ScriptedPeer.bytes(.headers, flags: FrameFlag.endHeaders, stream: $0, again)
    }
    #expect(asked.count * (asked[0].count + Limits.frameOverhead) < Limits.bytesBetweenLooks)
    peer.events.mayGoOn = false
    peer.send(asked.flatMap { $0 })
    #expect(peer.server.undecided == 2 && peer.server.untaken == asked.count * asked[0].count - asked[0].count)
    peer.events.mayGoOn = true
    peer.send(asked.dropFirst().flatMap { $0 })
    #expect(peer.server.undecided == 11 && peer.server.untaken == 0)
  }

  @Test("The memory of fields serves for the next block, once something was made of them")
  func gathersAnew() throws {
    let peer = try ScriptedPeer()
    peer.events.makesMeanings = true
    let end = FrameFlag.endHeaders | FrameFlag.endStream
    // Long, short, long, in one piece, then a long one in two frames.
    let sent = [(1, 90), (3, 1), (5, 40)].map { (stream, count) in
      (Int32(stream), ScriptedPeer.usual + (0..<count).map { ("x-\($0)", "of \(stream)") })
    }
    peer.send(sent.flatMap { ScriptedPeer.bytes(.headers, flags: end, stream: $0, ScriptedPeer.block($1)) })
    let last = ScriptedPeer.block(sent[0].1)
    peer.send(.headers, flags: FrameFlag.endStream, stream: 7, Array(last.prefix(200)))
    peer.send(.continuation, flags: FrameFlag.endHeaders, stream: 7, Array(last.dropFirst(200)))
    let said = (sent + [sent[0]]).map { $1.map { "\($0): \($1)" } }
    #expect(peer.events.meanings.map(\.fields) == said)
    #expect(peer.events.opened.count == 4 && peer.events.opened.allSatisfy { $0.handler.fields.isEmpty })
  }

  /// Sets what the client lets a stream send, behind the client's back.
  private func limitStreams(of pair: SessionPair, to window: UInt8) throws {
    try pair.run()
    // SETTINGS: INITIAL_WINDOW_SIZE.
    pair.feed([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, window], to: pair.server)
    // The client would not know what this acknowledges.
    pair.server.output.clear()
  }

  @Test("A block that comes again in the same bytes is not decoded again, until the table behind it changes")
  func repeatedBlocks() throws {
    let pair = try directPair()
    for _ in 0..<10 { _ = try call(pair, "ping") }
    // The first adds its fields to the table, the second refers to them.
    #expect(pair.serverEvents.blocks == 2)
    // Another field enters the table: what the old bytes refer to has moved.
    var fields = HTTP2FieldList()
    fields.add(":method", "POST")
    fields.add(":scheme", "http")
    fields.add(":path", "/a")
    fields.add(":authority", "localhost")
    fields.add("x-new", "value")
    let other = RecordingHandler()
    _ = try pair.client.request(fields, handler: other, endStream: true)
    try pair.run()
    #expect(other.closed == .noError)
    let handled = try call(pair, "else")
    #expect(handled.closed == .noError)
    #expect(
      pair.serverEvents.opened.last?.handler.fields == [
        ":method: POST", ":scheme: http", ":path: /a", ":authority: localhost",
      ])
  }

  @Test("Frames are the same however the bytes are cut")
  func cuts() throws {
    let whole = try directPair()
    let cut = try directPair()
    let bytes = try recorded(whole)
    for byte in bytes { cut.feed([byte], to: cut.server) }
    whole.feed(bytes, to: whole.server)
    whole.server.produce()
    cut.server.produce()
    #expect(cut.server.output == whole.server.output)
    #expect(cut.server.failure == nil)
    #expect(cut.serverEvents.opened.map(\.handler.body) == whole.serverEvents.opened.map(\.handler.body))
  }

  /// What a client says in two calls, without an answer.
  private func recorded(_ pair: SessionPair) throws -> [UInt8] {
    for body in ["ping", "else"] {
      let stream = try pair.request(RecordingHandler(), endStream: false)
      pair.client.write(stream, ByteBuffer(string: body))
      pair.client.finish(stream)
    }
    try pair.client.produce()
    defer { pair.client.output.clear() }
    return Array(pair.client.output.readableBytesView)
  }

  @Test("Many streams share the connection's window in turn, and all come to their end")
  func sharing() throws {
    let pair = try SessionPair(common: SessionPair.common)
    let size = 50_000
    pair.serverEvents.onEnd = { [unowned server = pair.server] stream in
      server.respond(stream, nil)
      server.write(stream, ByteBuffer(repeating: 7, count: size))
      server.finishCommon(stream)
    }
    let handlers = try (0..<20).map { _ in
      let handler = RecordingHandler()
      _ = try pair.request(handler)
      return handler
    }
    try pair.run()
    // 64 KiB of window, a frame to each in turn.
    #expect(handlers.filter { !$0.body.isEmpty }.count > 1)
    var granted = [Int](repeating: 0, count: handlers.count)
    for _ in 0..<100 where handlers.contains(where: { $0.closed == nil }) {
      for (index, handler) in handlers.enumerated() where handler.body.count > granted[index] {
        let taken = handler.body.count - granted[index]
        granted[index] = handler.body.count
        if let stream = handler.stream { pair.client.consume(stream, taken) }
      }
      try pair.run()
    }
    #expect(handlers.allSatisfy { $0.body.count == size && $0.closed == .noError })
  }

  @Test("A header list larger than a frame goes on in CONTINUATION")
  func longHead() throws {
    var limits = Limits()
    limits.headerListBytes = 64 * 1024
    let pair = try SessionPair(clientLimits: limits)
    pair.serverEvents.onEnd = { [unowned server = pair.server] stream in
      var fields = HTTP2FieldList()
      fields.add(":status", "200")
      for index in 0..<40 { fields.add("x-\(index)".utf8, (0..<500).map { UInt8(33 + ($0 * 7 + index) % 90) }) }
      server.respond(stream, fields, endStream: true)
    }
    let handler = RecordingHandler()
    _ = try pair.request(handler)
    pair.client.finish(try #require(handler.stream))
    try pair.run()
    #expect(handler.fields.count == 41)
    #expect(handler.closed == .noError)
  }
}
