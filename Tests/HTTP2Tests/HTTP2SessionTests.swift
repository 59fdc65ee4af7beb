import NIOCore
import Testing

@testable import HTTP2

@Suite struct HTTP2SessionTests {
  private func ok() -> HTTP2FieldList {
    var fields = HTTP2FieldList()
    fields.add(":status", "200")
    fields.add("content-type", "application/grpc")
    return fields
  }

  @Test("A request reaches the server and its answer, body and trailers come back")
  func exchange() throws {
    let pair = try SessionPair()
    pair.serverEvents.onEnd = { [unowned server = pair.server] stream in
      server.respond(stream, self.ok())
      server.write(stream, ByteBuffer(bytes: [1, 2, 3]))
      var trailers = HTTP2FieldList()
      trailers.add("grpc-status", "0")
      server.finish(stream, trailers: trailers)
    }
    let handler = RecordingHandler()
    let stream = try pair.request(handler, endStream: false)
    pair.client.write(stream, ByteBuffer(bytes: [9, 8]))
    pair.client.finish(stream)
    try pair.run()

    let served = try #require(pair.serverEvents.opened.first)
    #expect(served.handler.fields.contains(":path: /a"))
    #expect(served.handler.body == [9, 8])
    #expect(served.handler.closed == .noError)
    #expect(served.handler.wrote == 3)
    #expect(handler.fields == [":status: 200", "content-type: application/grpc", "grpc-status: 0"])
    #expect(handler.blocks == [.initial, .trailers])
    #expect(handler.body == [1, 2, 3])
    #expect(handler.ended)
    #expect(handler.closed == .noError)
    #expect(pair.client.openStreams == 0)
    #expect(pair.server.openStreams == 0)
    #expect(pair.serverEvents.settingsAcknowledged)
  }

  @Test("Stream objects are reused and keep nothing of the stream before")
  func reuse() throws {
    let pair = try SessionPair()
    pair.serverEvents.onEnd = { [unowned server = pair.server] stream in
      server.respond(stream, self.ok(), endStream: true)
    }
    var objects: Set<ObjectIdentifier> = []
    for _ in 0..<20 {
      let handler = RecordingHandler()
      _ = try pair.request(handler)
      try pair.run()
      #expect(handler.fields.count == 2)
      #expect(handler.closed == .noError)
    }
    for opened in pair.serverEvents.opened { objects.insert(ObjectIdentifier(opened.stream)) }
    #expect(objects.count == 1)
  }

  @Test("A body larger than the window waits until the reader consumes")
  func flowControl() throws {
    let pair = try SessionPair()
    let handler = RecordingHandler()
    let stream = try pair.request(handler, endStream: false)
    let size = 200_000
    pair.client.write(stream, ByteBuffer(repeating: 7, count: size))
    pair.client.finish(stream)
    try pair.run()
    let served = try #require(pair.serverEvents.opened.first)
    #expect(served.handler.body.count == 65_535)
    #expect(!served.handler.ended)
    var consumed = 0
    for _ in 0..<10 where !served.handler.ended {
      pair.server.consume(served.stream, served.handler.body.count - consumed)
      consumed = served.handler.body.count
      try pair.run()
    }
    #expect(served.handler.body.count == size)
    #expect(served.handler.ended)
  }

  @Test("Padding of a server's counts against the client's windows, and is granted again")
  func paddingOfAnswers() throws {
    let pair = try SessionPair()
    let handler = RecordingHandler()
    _ = try pair.request(handler)
    try pair.client.produce()
    // SETTINGS, and the head of an answer: RFC 7541 has ":status: 200" in its table.
    pair.feed([0, 0, 0, 4, 0, 0, 0, 0, 0] + [0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88], to: pair.client)
    try pair.client.produce()
    pair.client.output.clear()
    // A byte of DATA and 256 of padding, until half of the window is over.
    let frame: [UInt8] = [0, 1, 1, 0, 8, 0, 0, 0, 1, 255, 7] + [UInt8](repeating: 0, count: 255)
    for _ in 0..<130 { pair.feed(frame, to: pair.client) }
    try pair.client.produce()
    #expect(handler.body == [UInt8](repeating: 7, count: 130))
    // Nobody has taken the body; the padding alone opens the stream's window.
    let updates = Array(pair.client.output.readableBytesView)
    #expect(updates.starts(with: [0, 0, 4, 8, 0, 0, 0, 0, 1]))
    let granted = updates.dropFirst(9).prefix(4).reduce(0) { $0 << 8 | Int($1) }
    #expect(granted >= 32_000)
    #expect(granted <= 130 * 256)
  }

  @Test("Bytes of a reset stream are given back to the connection's window")
  func windowOfResetStreams() throws {
    let pair = try SessionPair()
    for _ in 0..<40 {
      let handler = RecordingHandler()
      let stream = try pair.request(handler, endStream: false)
      pair.client.write(stream, ByteBuffer(repeating: 1, count: 60_000))
      try pair.run()
      let served = try #require(pair.serverEvents.opened.last)
      #expect(served.handler.body.count == 60_000)
      pair.client.reset(stream, .cancel)
      try pair.run()
      #expect(served.handler.closed == .cancel)
    }
  }

  @Test("An answer before the end of the request frees the stream with RST_STREAM NO_ERROR")
  func earlyAnswer() throws {
    let pair = try SessionPair()
    let handler = RecordingHandler()
    _ = try pair.request(handler, endStream: false)
    try pair.run()
    let served = try #require(pair.serverEvents.opened.first)
    pair.server.respond(served.stream, ok(), endStream: true)
    try pair.run()
    #expect(handler.ended)
    #expect(handler.closed == .noError)
    #expect(pair.server.openStreams == 0)
  }

  @Test("No field of a malformed block reaches a handler, and the next block is whole")
  func malformedBlock() throws {
    let pair = try SessionPair()
    pair.serverEvents.onEnd = { [unowned server = pair.server] stream in
      server.respond(stream, self.ok(), endStream: true)
    }
    var fields = HTTP2FieldList()
    fields.add(":method", "POST")
    fields.add(":scheme", "http")
    fields.add(":path", "/malformed")
    // RFC 9113 §8.2.2: no connection-specific fields.
    fields.add("connection", "close")
    let refused = RecordingHandler()
    _ = try pair.client.request(fields, handler: refused, endStream: true)
    let handler = RecordingHandler()
    // Longer than the memory that the gathering begins with.
    _ = try pair.request(handler, path: "/" + String(repeating: "a", count: 3000))
    try pair.run()

    #expect(refused.closed == .protocolError)
    #expect(handler.fields.first == ":status: 200")
    let served = pair.serverEvents.opened.map(\.handler.fields)
    #expect(served.count == 1)
    #expect(served.last?.count == 4)
    #expect(served.last?.contains(":path: /" + String(repeating: "a", count: 3000)) == true)
  }

  @Test("A field goes out the same as text, as bytes, and where its name is known beforehand")
  func formsOfFields() throws {
    let pair = try SessionPair()
    pair.serverEvents.onEnd = { [unowned server = pair.server] stream in
      var fields = HTTP2FieldList()
      fields.add(":status", "200")
      for value in ["", "v", String(repeating: "long", count: 100)] {
        fields.add(name: "x-name", value: value)
        fields.add("x-name".utf8, value.utf8)
        fields.add("x-name", value)
      }
      server.respond(stream, fields, endStream: true)
    }
    let handler = RecordingHandler()
    _ = try pair.request(handler)
    try pair.run()
    let values = ["", "v", String(repeating: "long", count: 100)].flatMap { [$0, $0, $0] }
    #expect(handler.fields == [":status: 200"] + values.map { "x-name: \($0)" })
  }

  @Test("A header list beyond the limit resets its stream and nothing else")
  func headerLimit() throws {
    let pair = try SessionPair()
    var fields = HTTP2FieldList()
    fields.add(":method", "POST")
    fields.add(":scheme", "http")
    fields.add(":path", "/")
    for index in 0..<20 { fields.add("x-\(index)".utf8, String(repeating: "a", count: 1000).utf8) }
    let handler = RecordingHandler()
    _ = try pair.client.request(fields, handler: handler, endStream: true)
    try pair.run()
    #expect(handler.closed == .enhanceYourCalm)
    #expect(pair.server.failure == nil)
    let next = RecordingHandler()
    _ = try pair.request(next)
    try pair.run()
    #expect(pair.serverEvents.opened.last?.handler.ended == true)
  }

  @Test("A drain finishes what was begun and refuses what comes after")
  func drain() throws {
    let pair = try SessionPair()
    let first = RecordingHandler()
    _ = try pair.request(first)
    try pair.run()
    pair.server.announceShutdown()
    try pair.run()
    #expect(pair.clientEvents.goAway?.last == Int32.max)
    #expect(!pair.client.allowsRequests)
    pair.server.shutDown()
    try pair.run()
    #expect(pair.clientEvents.goAway?.last == 1)
    let served = try #require(pair.serverEvents.opened.first)
    #expect(pair.server.wantsToRead)
    pair.server.respond(served.stream, ok(), endStream: true)
    try pair.run()
    #expect(first.closed == .noError)
    #expect(!pair.server.wantsToRead)
    #expect(throws: HTTP2Error.draining) { try pair.request(RecordingHandler()) }
  }

  @Test("Abandoning a session closes each open stream once")
  func abandon() throws {
    let pair = try SessionPair()
    let handlers = try (0..<3).map { _ in
      let handler = RecordingHandler()
      _ = try pair.request(handler)
      return handler
    }
    try pair.run()
    pair.server.abandon()
    pair.client.abandon(.internalError)
    #expect(handlers.allSatisfy { $0.closed == .internalError })
    #expect(pair.serverEvents.opened.allSatisfy { $0.handler.closed == .cancel })
  }

  @Test("A ping is answered")
  func ping() throws {
    let pair = try SessionPair()
    pair.client.ping(0x0102_0304_0506_0708)
    try pair.run()
    #expect(pair.serverEvents.pings.first?.payload == 0x0102_0304_0506_0708)
    #expect(pair.clientEvents.pings.first?.acknowledged == true)
  }
}
