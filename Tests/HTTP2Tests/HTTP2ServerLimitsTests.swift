import NIOCore
import Testing

@testable import HTTP2

/// What a server session bears with from its peer, and where it stops: RFC 9113's errors, and our limits.
@Suite struct HTTP2ServerLimitsTests {
  private let large = 100_000

  /// A peer whose requests are answered with `size` bytes by a handler.
  private func answering(_ size: Int) throws -> ScriptedPeer {
    let peer = try ScriptedPeer()
    peer.events.onEnd = { [unowned server = peer.server] stream in
      server.respond(stream, nil)
      server.write(stream, ByteBuffer(repeating: 7, count: size))
      server.finishCommon(stream)
    }
    return peer
  }

  /// The frame that ends the connection, if the server said one.
  private func end(_ peer: ScriptedPeer) -> HTTP2ErrorCode? {
    peer.received().last { $0.type == FrameType.goAway.rawValue }?.code
  }

  // MARK: Header blocks

  @Test("A header list is counted with 32 bytes for each field: many small fields are a large list")
  func manySmallFields() throws {
    let peer = try ScriptedPeer()
    let few = (0..<400).map { _ in ("a", "b") }
    peer.request(1, few)
    peer.request(3, few + few)
    #expect(peer.events.opened.map(\.stream.id) == [1])
    let resets = peer.received().filter { $0.type == FrameType.reset.rawValue }
    #expect(resets.map(\.stream) == [3])
    #expect(resets.map(\.code) == [.enhanceYourCalm])
    #expect(peer.server.failure == nil)
  }

  @Test("A header block has at most eight CONTINUATION frames, however small they are")
  func continuations() throws {
    let peer = try ScriptedPeer()
    for (stream, count) in [(Int32(1), 8), (3, 9)] {
      let block = ScriptedPeer.block(ScriptedPeer.usual)
      peer.send(.headers, flags: FrameFlag.endStream, stream: stream, block)
      for number in 1...count {
        peer.send(.continuation, flags: number == count ? FrameFlag.endHeaders : 0, stream: stream)
      }
    }
    #expect(peer.events.opened.map(\.stream.id) == [1])
    #expect(end(peer) == .enhanceYourCalm)
  }

  @Test(
    "Between the frames of a header block nothing else may come",
    arguments: [
      (FrameType.continuation, Int32(3)), (.data, 1), (.windowUpdate, 0), (.ping, 0), (.settings, 0),
    ])
  func interruptedBlock(_ type: FrameType, _ stream: Int32) throws {
    let peer = try ScriptedPeer()
    peer.send(.headers, stream: 1, ScriptedPeer.block(ScriptedPeer.usual))
    peer.send(type, flags: FrameFlag.endHeaders, stream: stream, type == .ping ? [0, 0, 0, 0, 0, 0, 0, 0] : [])
    #expect(peer.server.failure == .protocolError)
    #expect(peer.events.opened.isEmpty)
  }

  @Test("The peer's table may be as large as the protocol's default, and not larger")
  func decoderTable() throws {
    let peer = try ScriptedPeer()
    let end = FrameFlag.endHeaders | FrameFlag.endStream
    // RFC 7541 §6.3: the table has 4096 bytes, then 65536.
    peer.send(.headers, flags: end, stream: 1, [0x3f, 0xe1, 0x1f] + ScriptedPeer.block(ScriptedPeer.usual))
    #expect(peer.server.failure == nil)
    peer.send(.headers, flags: end, stream: 3, [0x3f, 0xe1, 0xff, 0x03] + ScriptedPeer.block(ScriptedPeer.usual))
    #expect(peer.server.failure == .compressionError)
    #expect(peer.events.opened.map(\.stream.id) == [1])
  }

  @Test("A block that adds to the table does so each time that it comes")
  func repeatedInsertion() throws {
    let peer = try ScriptedPeer()
    let end = FrameFlag.endHeaders | FrameFlag.endStream
    let usual = ScriptedPeer.block(ScriptedPeer.usual)
    // RFC 7541 §6.2.1: a literal that is added.
    let added = usual + [0x40, 1] + Array("x".utf8) + [1] + Array("y".utf8)
    for stream: Int32 in [1, 3, 5] { peer.send(.headers, flags: end, stream: stream, added) }
    // The three of them, newest first.
    peer.send(.headers, flags: end, stream: 7, usual + [0x80 | 62, 0x80 | 63, 0x80 | 64])
    #expect(peer.server.failure == nil)
    #expect(peer.events.opened.last?.handler.fields.suffix(3) == ["x: y", "x: y", "x: y"])
    peer.send(.headers, flags: end, stream: 9, usual + [0x80 | 65])
    #expect(peer.server.failure == .compressionError)
  }

  @Test("A peer that wants no table gets blocks that need none, also those that all answers share")
  func noEncoderTable() throws {
    let peer = try answering(1)
    func blocks(_ stream: Int32) -> [[UInt8]] {
      peer.request(stream)
      return peer.received().filter { $0.type == FrameType.headers.rawValue }.map(\.payload)
    }
    _ = blocks(1)
    // Everything is in the table now: a byte for each field.
    #expect(blocks(3).allSatisfy { $0.count <= 2 })
    peer.settings(1, 0)
    let first = blocks(5)
    // RFC 7541 §4.2: the change is said at the beginning of the next block.
    #expect(first.first?.first == 0x20)
    for block in [Array(first[0].dropFirst()), first[1]] + blocks(7) {
      // Each field is indexed in the static table, or a literal that is not added.
      #expect(block.first.map { $0 & 0x80 != 0 && $0 & 0x7f <= 61 || $0 & 0xe0 == 0 } == true)
      // `content-type` and `grpc-status` are in no static table with their values.
      #expect(block.count > 2)
    }
  }

  @Test(
    "The table is given up with what a burst left, and the next block says so and how large the next one is",
    arguments: [(nil, [0x3f, 0xe1, 0x1f]), (100, [0x3f, 0x45]), (1 << 20, [0x3f, 0xe1, 0x1f])] as [(UInt32?, [UInt8])])
  func forgottenTable(limit: UInt32?, said: [UInt8]) throws {
    let peer = try ScriptedPeer()
    peer.events.onEnd = { [unowned server = peer.server] stream in
      var fields = HTTP2FieldList()
      fields.add(":status", "200")
      fields.add("x-a", "b")
      server.respond(stream, fields, endStream: true)
    }
    func block(_ stream: Int32) -> [UInt8] {
      peer.request(stream)
      return peer.received().filter { $0.type == FrameType.headers.rawValue }.flatMap(\.payload)
    }
    if let limit { peer.settings(1, limit) }
    let first = block(1)
    #expect(block(3).count == 2 && first.count > 2)
    for stream: Int32 in [5, 9] {
      peer.server.freeSpares()
      // RFC 7541 §4.2: that it is empty, and how large it may become; then all fields anew.
      let next = block(stream)
      #expect(next.starts(with: [0x20] + said))
      #expect(next.suffix(4) == first.suffix(4))
      #expect(block(stream + 2).count == 2)
    }
  }

  @Test("A peer that offers a larger table makes ours no larger")
  func encoderTable() throws {
    let peer = try ScriptedPeer()
    peer.events.onEnd = { [unowned server = peer.server] stream in
      var fields = HTTP2FieldList()
      fields.add(":status", "200")
      for index in 0..<100 { fields.add("x-\(index)".utf8, (0..<100).map { UInt8(33 + ($0 * 7 + index) % 90) }) }
      server.respond(stream, fields, endStream: true)
    }
    peer.settings(1, 1 << 20)
    for stream: Int32 in [1, 3, 5] {
      peer.request(stream)
      // The fields are 14 KB of the table: with 4 KB of it they never stay until they come again.
      let block = peer.received().filter { $0.type == FrameType.headers.rawValue }.flatMap(\.payload)
      #expect(block.count > 8000)
    }
  }

  @Test("A block that all answers share is made anew when another block has changed the table")
  func sharedBlocks() throws {
    let pair = try SessionPair(common: SessionPair.common)
    var extra = 0
    pair.serverEvents.onEnd = { [unowned server = pair.server] stream in
      extra += 1
      if extra.isMultiple(of: 2) {
        var fields = SessionPair.common.head
        fields.add("x-extra".utf8, "\(extra)".utf8)
        server.respond(stream, fields, endStream: true)
      } else {
        server.respond(stream, nil)
        server.write(stream, ByteBuffer(bytes: [1]))
        server.finishCommon(stream)
      }
    }
    for number in 1...10 {
      let handler = RecordingHandler()
      _ = try pair.request(handler)
      try pair.run()
      let usual = [":status: 200", "content-type: application/grpc"]
      #expect(handler.fields == usual + [number.isMultiple(of: 2) ? "x-extra: \(number)" : "grpc-status: 0"])
    }
  }

  @Test(
    "A request with a field that HTTP/2 does not allow is reset, and its connection lives on",
    arguments: [
      ("X-Upper", "1"), ("connection", "close"), ("keep-alive", "1"), ("transfer-encoding", "chunked"),
      ("upgrade", "h2c"), ("proxy-connection", "close"), ("te", "gzip"), ("a b", "1"), ("x-null", "a\0b"),
      ("x-line", "a\r\nb"), (":path", "/b"), (":unknown", "1"),
    ])
  func forbiddenField(_ name: String, _ value: String) throws {
    let peer = try ScriptedPeer()
    peer.request(1, [(name, value)])
    #expect(peer.events.opened.isEmpty)
    #expect(peer.received().map(\.code) == [.protocolError])
    peer.request(3)
    #expect(peer.events.opened.map(\.stream.id) == [3])
  }

  @Test("Trailers end their stream, and have no pseudo-header fields", arguments: [(false, "x-a"), (true, ":path")])
  func trailers(_ ends: Bool, _ name: String) throws {
    let peer = try ScriptedPeer()
    peer.request(1, end: false)
    peer.headers(1, [(name, "/b")], end: ends)
    #expect(peer.received().map(\.code) == [.protocolError])
    #expect(peer.events.opened.first?.handler.ended == false)
  }

  @Test("A request that ends without the body that it announced is reset")
  func missingBody() throws {
    let peer = try ScriptedPeer()
    peer.request(1, [("content-length", "4")])
    peer.request(3, [("content-length", "4")], end: false)
    peer.headers(3, [("x-a", "b")])
    #expect(peer.received().map(\.code) == [.protocolError, .protocolError])
    #expect(peer.events.opened.allSatisfy { !$0.handler.ended })
    peer.request(5, [("content-length", "0")])
    #expect(peer.received().isEmpty)
  }

  @Test("A body longer than content-length is refused where it gets too long")
  func longBody() throws {
    let peer = try ScriptedPeer()
    peer.request(1, [("content-length", "4")], end: false)
    peer.send(.data, stream: 1, [1, 2, 3])
    peer.send(.data, stream: 1, [4, 5])
    #expect(peer.received().map(\.code) == [.protocolError])
    #expect(peer.events.opened.first?.handler.body == [1, 2, 3])
  }

  @Test("A body is as long as content-length says", arguments: [(3, "4"), (5, "4"), (4, "4")])
  func contentLength(_ count: Int, _ announced: String) throws {
    for isInTwo in [false, true] {
      let peer = try ScriptedPeer()
      peer.request(1, [("content-length", announced)], end: false)
      let body = [UInt8](repeating: 7, count: count)
      if isInTwo { peer.send(.data, stream: 1, [body[0]]) }
      peer.send(.data, flags: FrameFlag.endStream, stream: 1, isInTwo ? Array(body.dropFirst()) : body)
      #expect(peer.received().map(\.code) == (count == 4 ? [] : [.protocolError]))
      #expect(peer.events.opened.first?.handler.ended == (count == 4))
    }
  }

  // MARK: Budgets

  @Test("A peer that resets its requests is sent away after a burst, and forgiven at the rate of the budget")
  func peerResets() throws {
    let peer = try ScriptedPeer()
    var stream: Int32 = 1
    func resetOne() {
      peer.request(stream, end: false)
      peer.send(.reset, stream: stream, [0, 0, 0, 8])
      stream += 2
    }
    let (rate, excess) = (peer.server.limits.peerResets, peer.server.limits.excessResets)
    for _ in 0..<rate.burst { resetOne() }
    #expect(peer.events.overruns == 0)
    for number in 1...excess.burst {
      resetOne()
      #expect(peer.events.overruns == number)
    }
    #expect(peer.server.failure == nil)
    peer.now = peer.now + .milliseconds(999)
    // Each has whole resets only.
    for _ in 0..<rate.perSecond + excess.perSecond - 2 { resetOne() }
    #expect(peer.server.failure == nil)
    resetOne()
    #expect(end(peer) == .enhanceYourCalm)
  }

  @Test("A peer may reset as many streams as it likes that are old, or that were answered in an earlier read")
  func forgivenResets() throws {
    let old = try ScriptedPeer()
    let answered = try answering(large)
    for round in 0..<Int32(20) {
      let streams = (0..<Int32(50)).map { 2 * (50 * round + $0) + 1 }
      for stream in streams {
        old.request(stream, end: false)
        answered.request(stream)
      }
      old.now = old.now + .seconds(1)
      answered.now = answered.now + .milliseconds(1)
      for peer in [old, answered] {
        for stream in streams { peer.send(.reset, stream: stream, [0, 0, 0, 8]) }
        #expect(peer.server.failure == nil)
        #expect(peer.server.openStreams == 0)
      }
    }
    #expect(old.events.overruns == 0 && answered.events.overruns == 0)
  }

  @Test("Calls that are answered make up for as many that are cancelled at once")
  func earnedResets() throws {
    let peer = try ScriptedPeer()
    peer.events.onEnd = { [unowned server = peer.server] stream in
      server.respond(stream, nil)
      server.write(stream, ByteBuffer(repeating: 7, count: 1))
      server.finishCommon(stream)
    }
    for number in 0..<Int32(1000) {
      peer.request(4 * number + 1)
      peer.grant(1)
      _ = peer.received()
      peer.request(4 * number + 3, end: false)
      peer.send(.reset, stream: 4 * number + 3, [0, 0, 0, 8])
    }
    #expect(peer.server.failure == nil && peer.events.overruns == 0)
  }

  @Test("DATA that is padding alone does no work")
  func padding() throws {
    let peer = try ScriptedPeer()
    peer.request(1, end: false)
    var count = 0
    while peer.server.failure == nil, count < 1000 {
      peer.send(.data, flags: FrameFlag.padded, stream: 1, [3, 0, 0, 0])
      count += 1
    }
    #expect(count == peer.server.limits.idleFrames.burst + 1 - 2 + 1)
    #expect(end(peer) == .enhanceYourCalm)
  }

  @Test("Frames on a stream that we have reset do no work", arguments: [false, true])
  func framesAfterReset(_ isWritten: Bool) throws {
    for isData in [true, false] {
      let peer = try ScriptedPeer()
      peer.request(1, end: false)
      peer.server.reset(try #require(peer.events.opened.first).stream, .cancel)
      if isWritten { _ = peer.received() }
      var count = 0
      while peer.server.failure == nil, count < 1000 {
        if isData { peer.send(.data, stream: 1, [7]) } else { peer.headers(1, [("a", "b")], end: false) }
        count += 1
      }
      #expect(count <= peer.server.limits.idleFrames.burst + 1)
      #expect(end(peer) == .enhanceYourCalm)
    }
  }

  @Test("A peer whose mistakes make us reset streams is sent away after a burst")
  func ownResets() throws {
    let peer = try ScriptedPeer()
    let burst = peer.server.limits.ownResets.burst
    for number in 0..<burst { peer.headers(Int32(2 * number + 1), [(":method", "POST")]) }
    #expect(peer.received().count == burst)
    #expect(peer.server.failure == nil)
    peer.headers(Int32(2 * burst + 1), [(":method", "POST")])
    #expect(end(peer) == .enhanceYourCalm)
  }

  @Test(
    "Frames that do no work are borne with for a burst",
    arguments: [
      (FrameType.ping, Int32(0), [UInt8](repeating: 0, count: 8)), (.settings, 0, []), (.priority, 1, [0, 0, 0, 0, 9]),
      (.windowUpdate, 0, [0, 0, 0, 1]), (.windowUpdate, 1, [0, 0, 0, 1]), (.data, 1, []),
    ])
  func idleFrames(_ type: FrameType, _ stream: Int32, _ payload: [UInt8]) throws {
    let peer = try ScriptedPeer()
    peer.request(1, end: false)
    var count = 0
    while peer.server.failure == nil, count < 1000 {
      peer.send(type, stream: stream, payload)
      count += 1
    }
    // The preface has taken two, and the request has earned one back.
    #expect(count == peer.server.limits.idleFrames.burst + 1 - 2 + 1)
    #expect(end(peer) == .enhanceYourCalm)
  }

  @Test("Frames of a type that nobody knows are passed over for a burst")
  func unknownFrames() throws {
    let peer = try ScriptedPeer()
    var count = 0
    while peer.server.failure == nil, count < 1000 {
      peer.send([0, 0, 1, 0xfe, 0xff, 0, 0, 0, 1, 7])
      count += 1
    }
    // The preface has taken two.
    #expect(count == peer.server.limits.idleFrames.burst + 1 - 2)
    #expect(end(peer) == .enhanceYourCalm)
  }

  @Test("SETTINGS have at most 32 entries")
  func settingsEntries() throws {
    let peer = try ScriptedPeer()
    let entry: [UInt8] = [0xff, 0, 0, 0, 0, 1]
    peer.send(.settings, Array(repeatElement(entry, count: 32).joined()))
    #expect(peer.server.failure == nil)
    peer.send(.settings, Array(repeatElement(entry, count: 33).joined()))
    #expect(end(peer) == .enhanceYourCalm)
  }

  @Test("More streams than we allow are refused until our limit is known, and end the connection after that")
  func concurrentStreams() throws {
    for isKnown in [false, true] {
      let peer = try ScriptedPeer(acknowledges: isKnown)
      let most = Int32(peer.server.limits.concurrentStreams)
      for number in 0..<most { peer.request(2 * number + 1, end: false) }
      #expect(peer.server.openStreams == Int(most))
      peer.request(2 * most + 1, end: false)
      #expect(peer.received().map(\.code) == [isKnown ? .protocolError : .refusedStream])
      #expect(peer.server.failure == (isKnown ? .protocolError : nil))
      #expect(peer.events.opened.count == Int(most))
    }
  }

  // MARK: Windows

  @Test("What a peer sends beyond the window of a stream resets the stream, and beyond the connection's ends it")
  func receiveWindows() throws {
    let peer = try ScriptedPeer()
    let frame = [UInt8](repeating: 7, count: 16_384)
    peer.request(1, end: false)
    for _ in 0..<3 { peer.send(.data, stream: 1, frame) }
    peer.send(.data, stream: 1, Array(frame.dropFirst()))
    #expect(peer.received().isEmpty)
    peer.send(.data, stream: 1, [7])
    let answers = peer.received()
    #expect(answers.filter { $0.type == FrameType.reset.rawValue }.map(\.code) == [.flowControlError])
    #expect(peer.server.failure == nil)

    let greedy = try ScriptedPeer()
    // Nobody consumes: 16 streams' windows are the connection's, all but 16 bytes.
    for number in 0..<Int32(16) {
      greedy.request(2 * number + 1, end: false)
      for _ in 0..<3 { greedy.send(.data, stream: 2 * number + 1, frame) }
      greedy.send(.data, stream: 2 * number + 1, Array(frame.dropFirst()))
    }
    greedy.request(33, end: false)
    greedy.send(.data, stream: 33, [UInt8](repeating: 7, count: 16))
    #expect(greedy.server.failure == nil)
    greedy.send(.data, stream: 33, [7])
    #expect(end(greedy) == .flowControlError)
  }

  @Test(
    "R50: where many share a connection no stream waits for its window, although others' streams are full"
  )
  func sharedWindow() throws {
    var limits = Limits()
    limits.isShared = true
    let peer = try ScriptedPeer(limits: limits)
    let granted = Int(peer.server.limits.concurrentStreams) * 65_535
    #expect(peer.server.connectionWindow - granted == 2 * Limits.connectionGrant)
    var window = peer.server.connectionWindow
    let frame = [UInt8](repeating: 7, count: 16_384)
    var next = Int32(1)
    // Streams that are reset use up the window, all but what is not granted again yet; then others fill theirs.
    for isKept in [false, true] {
      for _ in 0..<(isKept ? 99 : 200) {
        peer.request(next, end: false)
        for _ in 0..<3 { peer.send(.data, stream: next, frame) }
        peer.send(.data, stream: next, Array(frame.dropFirst()))
        window -= 65_535
        if !isKept { peer.send(.reset, stream: next, [0, 0, 0, 8]) }
        next += 2
        peer.now = peer.now + .seconds(1)
        for frame in peer.received() where frame.type == FrameType.windowUpdate.rawValue && frame.stream == 0 {
          window += Int(frame.number(at: 0))
        }
      }
    }
    #expect(window >= 65_535 && peer.server.failure == nil)
    peer.request(next, end: false)
    peer.send(.data, stream: next, frame)
    #expect(peer.server.failure == nil && peer.events.opened.count == 300)
  }

  @Test("R50: where many share a connection what comes late for a reset stream ends nobody else's")
  func lateDataOfOne() throws {
    for isShared in [false, true] {
      var limits = Limits()
      limits.isShared = isShared
      let peer = try ScriptedPeer(limits: limits)
      peer.request(1, end: false)
      let opened = try #require(peer.events.opened.last)
      peer.server.reset(opened.stream, .cancel)
      for _ in 0..<300 { peer.send(.data, stream: 1, [7]) }
      _ = peer.received()
      for _ in 0..<300 { peer.send(.data, stream: 1, [7]) }
      #expect(peer.server.failure == (isShared ? nil : .enhanceYourCalm))
    }
  }

  @Test(
    "R50: where many share a connection frames that carry nothing end their stream, and nobody else's")
  func emptyFramesOfOne() throws {
    var limits = Limits()
    limits.isShared = true
    let peer = try ScriptedPeer(limits: limits)
    peer.request(1, end: false)
    peer.request(3, end: false)
    for number in 0..<1000 {
      // Nothing, and padding alone.
      if number.isMultiple(of: 2) {
        peer.send(.data, stream: 1)
      } else {
        peer.send(.data, flags: 8, stream: 1, [1, 0])
      }
    }
    let resets = peer.received().filter { $0.type == FrameType.reset.rawValue }
    #expect(resets.map(\.stream) == [1] && resets.map(\.code) == [.enhanceYourCalm])
    peer.send(.data, flags: FrameFlag.endStream, stream: 3, [7])
    #expect(peer.server.failure == nil && peer.events.opened.count == 2)
    // Also those that come for it later.
    for _ in 0..<1000 { peer.send(.data, stream: 1) }
    #expect(peer.server.failure == nil)
    // One now and then is nobody's fault.
    peer.request(5, end: false)
    for _ in 0..<1000 {
      peer.send(.data, stream: 5)
      peer.send(.data, stream: 5, [7])
    }
    #expect(peer.received().filter { $0.type == FrameType.reset.rawValue }.isEmpty)
  }

  @Test("The connection's window comes back for streams that ended before anybody read them")
  func windowsOfEndedStreams() throws {
    let peer = try ScriptedPeer()
    let frame = [UInt8](repeating: 7, count: 16_000)
    // Twice the connection's window, by streams that the peer resets, and by streams that we do.
    for number in 0..<Int32(140) {
      let stream = 2 * number + 1
      peer.request(stream, end: false)
      if number.isMultiple(of: 2), number < 120, let opened = peer.events.opened.last {
        peer.server.reset(opened.stream, .cancel)
      }
      peer.send(.data, stream: stream, frame)
      if !(number.isMultiple(of: 2) && number < 120) { peer.send(.reset, stream: stream, [0, 0, 0, 8]) }
      _ = peer.received()
      peer.now = peer.now + .seconds(1)
    }
    #expect(peer.server.failure == nil)
    #expect(peer.server.bufferedBytes < peer.server.limits.connectionWindow / 2)
  }

  @Test("A frame counts as far as it has come until it is whole, also one that nobody knows, and says when it began")
  func halfFrames() throws {
    let peer = try ScriptedPeer()
    var frame = ScriptedPeer.bytes(.data, [UInt8](repeating: 7, count: 16_000))
    frame[3] = 0xaa
    #expect(peer.server.bufferedBytes == 0 && peer.server.frameBegan == nil && !peer.server.isHalfway)
    let began = peer.now
    var sent = 0
    for end in [1, 8, 9, 10, 8_000, frame.count - 1] {
      peer.send(Array(frame[sent..<end]))
      sent = end
      #expect(peer.server.bufferedBytes == sent && peer.server.partialBytes == sent)
      #expect(peer.server.frameBegan == began && peer.server.isHalfway && !peer.server.isReceivingBlock)
      peer.now = peer.now + .seconds(1)
    }
    // The next one begins in the read that ends this one.
    peer.send(Array(frame[sent...] + frame.prefix(20)))
    #expect(peer.server.bufferedBytes == 20 && peer.server.frameBegan == peer.now)
    peer.send(Array(frame.dropFirst(20)))
    #expect(peer.server.bufferedBytes == 0 && peer.server.frameBegan == nil && !peer.server.isHalfway)
    // Between the frames of a header block there is no frame.
    peer.send(.headers, stream: 1, ScriptedPeer.block(ScriptedPeer.usual))
    #expect(peer.server.isHalfway && peer.server.isReceivingBlock && peer.server.frameBegan == nil)
  }

  @Test("What we send keeps to the window of the stream, and to that of the connection")
  func sendWindows() throws {
    let peer = try answering(large)
    peer.grant(1_000_000)
    peer.request(1)
    #expect(peer.receivedData() == [1: 65_535])
    peer.grant(10, stream: 1)
    #expect(peer.receivedData() == [1: 10])

    let other = try answering(large)
    other.settings(4, 1_000_000)
    other.request(1)
    other.request(3)
    #expect(other.receivedData().values.reduce(0, +) == 65_535)
    other.grant(10)
    #expect(other.receivedData().values.reduce(0, +) == 10)
    other.grant(1_000_000)
    #expect(other.receivedData().values.reduce(0, +) == 2 * large - 65_535 - 10)
  }

  @Test("Direct answers keep to the windows as well")
  func directAnswers() throws {
    let peer = try ScriptedPeer()
    var size = 1
    peer.events.direct = { _ in ByteBuffer(repeating: 7, count: size) }
    func call(_ stream: Int32) {
      peer.request(stream, end: false)
      peer.send(.data, flags: FrameFlag.endStream, stream: stream, [1])
    }
    // The first answers make the blocks that the later ones share.
    for stream: Int32 in [1, 3, 5] {
      call(stream)
      #expect(peer.receivedData() == [stream: 1])
    }
    size = 10_000
    peer.settings(4, 1_000_000)
    for stream: Int32 in [7, 9, 11, 13, 15, 17, 19, 21] { call(stream) }
    #expect(peer.receivedData().values.reduce(0, +) == 65_535 - 3)
    peer.grant(100_000)
    #expect(peer.receivedData().values.reduce(0, +) == 80_000 - 65_535 + 3)
    #expect(peer.server.openStreams == 0)
    peer.settings(4, 9_000)
    call(23)
    #expect(peer.receivedData() == [23: 9_000])
  }

  @Test("A change of the initial window counts for open streams, also below zero")
  func initialWindow() throws {
    let peer = try answering(large)
    peer.grant(1_000_000)
    peer.request(1)
    #expect(peer.receivedData() == [1: 65_535])
    peer.settings(4, 0)
    // It owes 65,535 bytes now.
    peer.grant(65_535, stream: 1)
    #expect(peer.receivedData() == [:])
    peer.grant(5, stream: 1)
    #expect(peer.receivedData() == [1: 5])
    peer.settings(4, UInt32(large))
    #expect(peer.receivedData() == [1: large - 65_535 - 5])
  }

  @Test("A window beyond 2^31-1 is an error: of the stream, or of the connection")
  func windowOverflow() throws {
    let peer = try answering(large)
    peer.request(1, end: false)
    peer.grant(0x7fff_ffff, stream: 1)
    #expect(peer.received().map(\.code) == [.flowControlError])
    #expect(peer.server.failure == nil)
    peer.grant(0x7fff_ffff)
    #expect(end(peer) == .flowControlError)

    let other = try answering(large)
    other.request(1, end: false)
    other.grant(1, stream: 1)
    other.settings(4, 0x7fff_ffff)
    #expect(end(other) == .flowControlError)
  }

  @Test("A WINDOW_UPDATE of nothing is an error", arguments: [Int32(0), 1])
  func emptyWindowUpdate(_ stream: Int32) throws {
    let peer = try ScriptedPeer()
    peer.request(1, end: false)
    peer.grant(0, stream: stream)
    #expect(end(peer) == .protocolError)
  }

  // MARK: Frames and streams

  @Test("A frame longer than we allow is refused at its header")
  func frameSize() throws {
    let peer = try ScriptedPeer()
    peer.request(1, end: false)
    peer.send(.data, stream: 1, [UInt8](repeating: 7, count: 16_384))
    #expect(peer.server.failure == nil)
    peer.send([0, 0x40, 0x01, 0, 0, 0, 0, 0, 1])
    #expect(end(peer) == .frameSizeError)
  }

  @Test(
    "DATA and HEADERS on a stream that the peer has ended end the connection",
    arguments: [FrameType.data, .headers])
  func closedStream(_ type: FrameType) throws {
    for isAnswered in [false, true] {
      let peer = try answering(1)
      if !isAnswered { peer.events.onEnd = nil }
      peer.request(1)
      _ = peer.received()
      #expect(peer.server.openStreams == (isAnswered ? 0 : 1))
      let payload = type == .data ? [7] : ScriptedPeer.block([("x-a", "b")])
      peer.send(type, flags: FrameFlag.endStream | FrameFlag.endHeaders, stream: 1, payload)
      #expect(end(peer) == .streamClosed)
    }
  }

  @Test("GOAWAY names the last stream that was worked on, and nothing is taken in after it")
  func lastStream() throws {
    let peer = try ScriptedPeer()
    peer.request(1)
    peer.request(5)
    peer.grant(0)
    let goAway = try #require(peer.received().last)
    #expect(goAway.type == FrameType.goAway.rawValue)
    #expect(goAway.number(at: 0) == 5)
    peer.request(7)
    #expect(peer.events.opened.count == 2)
    #expect(peer.received().isEmpty)
  }

  @Test("A drain serves what began before its last GOAWAY, and passes over what came after")
  func drain() throws {
    let peer = try answering(1)
    peer.server.announceShutdown()
    #expect(peer.received().map { $0.number(at: 0) } == [0x7fff_ffff])
    peer.request(1, end: false)
    peer.server.shutDown()
    #expect(peer.received().map { $0.number(at: 0) } == [1])
    peer.request(3)
    peer.request(5, end: false)
    peer.send(.data, flags: FrameFlag.endStream, stream: 5, [7])
    #expect(peer.events.opened.map(\.stream.id) == [1])
    #expect(peer.server.wantsToRead)
    peer.send(.data, flags: FrameFlag.endStream, stream: 1, [7])
    #expect(peer.receivedData() == [1: 1])
    #expect(!peer.server.wantsToRead)
    #expect(peer.server.failure == nil)
  }
}
