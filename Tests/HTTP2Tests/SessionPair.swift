import NIOCore

@testable import HTTP2

/// A client session and a server session that talk through memory.
final class SessionPair {
  let client: HTTP2ClientSession
  let server: HTTP2ServerSession
  let clientEvents = RecordingDelegate()
  let serverEvents = RecordingDelegate()
  var now = NIODeadline.uptimeNanoseconds(1_000_000_000)

  /// What every answer of gRPC shares.
  static let common: HTTP2CommonAnswer = {
    var common = HTTP2CommonAnswer()
    common.head.add(":status", "200")
    common.head.add("content-type", "application/grpc")
    common.trailers.add("grpc-status", "0")
    return common
  }()

  init(
    clientLimits: Limits = Limits(),
    serverLimits: Limits = Limits(),
    common: HTTP2CommonAnswer = HTTP2CommonAnswer()
  ) throws {
    let allocator = ByteBufferAllocator()
    client = try HTTP2ClientSession(limits: clientLimits, allocator: allocator, now: now)
    server = try HTTP2ServerSession(limits: serverLimits, common: common, allocator: allocator, now: now)
    client.delegate = clientEvents
    server.delegate = serverEvents
  }

  /// Carries bytes both ways until nobody has more to say.
  func run() throws {
    for _ in 0..<1000 {
      try client.produce()
      let sent = client.output
      client.output.clear()
      feed(Array(sent.readableBytesView), to: server)
      server.produce()
      let answered = server.output
      server.output.clear()
      feed(Array(answered.readableBytesView), to: client)
      if sent.readableBytes + answered.readableBytes == 0 { return }
    }
    throw Endless()
  }

  struct Endless: Error {}

  func feed(_ bytes: [UInt8], to session: HTTP2ClientSession) {
    unsafe bytes.withUnsafeBytes { unsafe session.receive($0, now: now) }
  }

  func feed(_ bytes: [UInt8], to session: HTTP2ServerSession) {
    unsafe bytes.withUnsafeBytes { unsafe session.receive($0, now: now) }
  }

  func request(_ handler: RecordingHandler, path: String = "/a", endStream: Bool = true) throws -> HTTP2Stream {
    var fields = HTTP2FieldList()
    fields.add(":method", "POST")
    fields.add(":scheme", "http")
    fields.add(":path", path)
    fields.add(":authority", "localhost")
    let stream = try client.request(fields, handler: handler, endStream: endStream)
    handler.stream = stream
    return stream
  }
}

/// What was made of a header block.
final class Meaning {
  var fields: [String] = []
}

final class RecordingDelegate: HTTP2ClientSessionDelegate {
  var opened: [(stream: HTTP2Stream, handler: RecordingHandler)] = []
  var goAway: (code: HTTP2ErrorCode, last: Int32)?
  var settingsAcknowledged = false
  var pings: [(payload: UInt64, acknowledged: Bool)] = []
  var onEnd: ((HTTP2Stream) -> Void)?
  /// Header blocks that were decoded.
  var blocks = 0
  /// Makes something of each block, which is kept.
  var makesMeanings = false
  var meanings: [Meaning] = []
  /// What the server's session hears when it asks whether it may go on.
  var mayGoOn = true
  /// How often the server's session has said that its peer cancels too much.
  var overruns = 0
  /// Answers a request by its body, or has it opened.
  var direct: (([UInt8]) -> ByteBuffer?)?
  /// Turns calls away that are a second late.
  var turnsAway = false
  /// Takes note of a body that is to come.
  var foresee: (([UInt8]) -> Bool)?

  func session(_ session: HTTP2ClientSession, receivedSettings acknowledged: Bool) {
    if acknowledged { settingsAcknowledged = true }
  }

  func session(_ session: HTTP2ClientSession, receivedPing payload: UInt64, acknowledged: Bool) {
    pings.append((payload, acknowledged))
  }

  func session(
    _ session: HTTP2ClientSession,
    receivedGoAway code: HTTP2ErrorCode,
    lastStreamID: Int32,
    debug: [UInt8]
  ) {
    goAway = (code, lastStreamID)
  }
}

extension RecordingDelegate: HTTP2ServerSessionDelegate {
  func sessionMayGoOn(_ session: HTTP2ServerSession) -> Bool { mayGoOn }

  func sessionIsOverrun(_ session: HTTP2ServerSession) { overruns += 1 }

  func session(_ session: HTTP2ServerSession, received block: HTTP2RequestBlock) {
    blocks += 1
    block.allowsDirectAnswer = direct != nil
    if turnsAway { block.patience = .seconds(1) }
    guard makesMeanings else { return }
    let meaning = Meaning()
    unsafe block.forEach { name, value in
      // Text of the test's own.
      let (name, value) = unsafe (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
      meaning.fields.append("\(name): \(value)")
      return true
    }
    block.meaning = meaning
    meanings.append(meaning)
  }

  func session(
    _ session: HTTP2ServerSession,
    answersDirectly stream: HTTP2Stream,
    _ block: HTTP2RequestBlock,
    _ body: UnsafeRawBufferPointer
  ) -> Bool {
    if let direct, var answer = direct(unsafe Array(body)) {
      session.answer(stream, &answer)
    } else if session.isTooLate(block) {
      session.turnAway(stream)
    } else {
      return false
    }
    return true
  }

  func session(_ session: HTTP2ServerSession, refuses stream: HTTP2Stream, _ block: HTTP2RequestBlock) -> Bool {
    guard turnsAway else { return false }
    session.turnAway(stream)
    return true
  }

  func session(_ session: HTTP2ServerSession, foresees body: UnsafeRawBufferPointer) -> Bool {
    foresee?(unsafe Array(body)) ?? false
  }

  func session(
    _ session: HTTP2ServerSession,
    opened stream: HTTP2Stream,
    _ block: HTTP2RequestBlock
  ) -> any HTTP2StreamHandler {
    let handler = RecordingHandler()
    handler.onEnd = onEnd
    unsafe block.forEach { name, value in unsafe handler.stream(stream, receivedField: name, value) }
    handler.blocks.append(.initial)
    opened.append((stream, handler))
    return handler
  }

  func session(_ session: HTTP2ServerSession, receivedSettings acknowledged: Bool) {
    if acknowledged { settingsAcknowledged = true }
  }

  func session(_ session: HTTP2ServerSession, receivedPing payload: UInt64, acknowledged: Bool) {
    pings.append((payload, acknowledged))
  }
}

final class RecordingHandler: HTTP2StreamHandler {
  weak var stream: HTTP2Stream?
  var fields: [String] = []
  var blocks: [HTTP2FieldBlock] = []
  var body: [UInt8] = []
  var ended = false
  var closed: HTTP2ErrorCode?
  var wrote = 0
  var onEnd: ((HTTP2Stream) -> Void)?

  func stream(
    _ stream: HTTP2Stream,
    receivedField name: UnsafeRawBufferPointer,
    _ value: UnsafeRawBufferPointer
  ) -> Bool {
    fields.append(unsafe String(decoding: name, as: UTF8.self) + ": " + String(decoding: value, as: UTF8.self))
    return true
  }

  func stream(_ stream: HTTP2Stream, completedFields block: HTTP2FieldBlock) { blocks.append(block) }

  func stream(_ stream: HTTP2Stream, receivedData bytes: UnsafeRawBufferPointer) {
    unsafe body.append(contentsOf: bytes)
  }

  func streamReceivedEnd(_ stream: HTTP2Stream) {
    ended = true
    onEnd?(stream)
  }

  func stream(_ stream: HTTP2Stream, wrote bytes: Int) { wrote += bytes }

  func stream(_ stream: HTTP2Stream, closed code: HTTP2ErrorCode) { closed = code }
}
