import NIOCore

@testable import HTTP2

/// A client session and a server session that talk through memory.
final class SessionPair {
  let client: HTTP2Session
  let server: HTTP2Session
  let clientEvents = RecordingDelegate()
  let serverEvents = RecordingDelegate()
  var now = NIODeadline.uptimeNanoseconds(1_000_000_000)

  init(clientLimits: Limits = Limits(), serverLimits: Limits = Limits()) throws {
    let allocator = ByteBufferAllocator()
    client = try HTTP2Session(role: .client, limits: clientLimits, allocator: allocator, now: now)
    server = try HTTP2Session(role: .server, limits: serverLimits, allocator: allocator, now: now)
    client.delegate = clientEvents
    server.delegate = serverEvents
  }

  /// Carries bytes both ways until nobody has more to say.
  func run() throws {
    for _ in 0..<1000 {
      let sent = try carry(client, server)
      let answered = try carry(server, client)
      if sent + answered == 0 { return }
    }
    throw Endless()
  }

  struct Endless: Error {}

  private func carry(_ from: HTTP2Session, _ to: HTTP2Session) throws -> Int {
    try from.produce()
    let bytes = from.output
    from.output.clear()
    feed(Array(bytes.readableBytesView), to: to)
    return bytes.readableBytes
  }

  func feed(_ bytes: [UInt8], to session: HTTP2Session) {
    unsafe bytes.withUnsafeBytes { unsafe session.receive($0, now: now) }
  }

  func request(_ handler: RecordingHandler, path: String = "/a", endStream: Bool = true) throws -> HTTP2Stream {
    var fields = HTTP2FieldList()
    fields.add(":method", "POST")
    fields.add(":scheme", "http")
    fields.add(":path", path)
    fields.add(":authority", "localhost")
    return try client.request(fields, handler: handler, endStream: endStream)
  }
}

final class RecordingDelegate: HTTP2SessionDelegate {
  var opened: [(stream: HTTP2Stream, handler: RecordingHandler)] = []
  var goAway: (code: HTTP2ErrorCode, last: Int32)?
  var settingsAcknowledged = false
  var pings: [(payload: UInt64, acknowledged: Bool)] = []
  var onEnd: ((HTTP2Stream) -> Void)?

  func session(_ session: HTTP2Session, opened stream: HTTP2Stream) -> any HTTP2StreamHandler {
    let handler = RecordingHandler()
    handler.onEnd = onEnd
    opened.append((stream, handler))
    return handler
  }

  func session(_ session: HTTP2Session, receivedSettings acknowledged: Bool) {
    if acknowledged { settingsAcknowledged = true }
  }

  func session(_ session: HTTP2Session, receivedPing payload: UInt64, acknowledged: Bool) {
    pings.append((payload, acknowledged))
  }

  func session(_ session: HTTP2Session, receivedGoAway code: HTTP2ErrorCode, lastStreamID: Int32, debug: [UInt8]) {
    goAway = (code, lastStreamID)
  }
}

final class RecordingHandler: HTTP2StreamHandler {
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
