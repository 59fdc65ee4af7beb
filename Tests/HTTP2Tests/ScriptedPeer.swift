import NIOCore

@testable import HTTP2

/// A client that says whatever a test has it say, frame by frame, to a server session.
final class ScriptedPeer {
  let server: HTTP2ServerSession
  let events = RecordingDelegate()
  var now = NIODeadline.uptimeNanoseconds(1_000_000_000)

  struct Frame: Equatable {
    var type: FrameType.RawValue
    var flags: UInt8
    var stream: Int32
    var payload: [UInt8]

    /// The error code of RST_STREAM and GOAWAY.
    var code: HTTP2ErrorCode? {
      switch type {
      case FrameType.reset.rawValue: HTTP2ErrorCode(rawValue: number(at: 0))
      case FrameType.goAway.rawValue: HTTP2ErrorCode(rawValue: number(at: 4))
      default: nil
      }
    }

    func number(at index: Int) -> UInt32 {
      payload[index..<index + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
  }

  /// - Parameter acknowledges: whether the peer takes note of the server's SETTINGS at once.
  init(limits: Limits = Limits(), common: HTTP2CommonAnswer = SessionPair.common, acknowledges: Bool = true) throws {
    server = try HTTP2ServerSession(limits: limits, common: common, allocator: ByteBufferAllocator(), now: now)
    server.delegate = events
    send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8))
    send(.settings)
    if acknowledges { send(.settings, flags: FrameFlag.acknowledgement) }
    _ = received()
  }

  // MARK: Saying

  func send(_ bytes: [UInt8]) {
    unsafe bytes.withUnsafeBytes { unsafe server.receive($0, now: now) }
  }

  func send(_ type: FrameType, flags: UInt8 = 0, stream: Int32 = 0, _ payload: [UInt8] = []) {
    send(Self.bytes(type, flags: flags, stream: stream, payload))
  }

  static func bytes(_ type: FrameType, flags: UInt8 = 0, stream: Int32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
    var bytes = Array(big(UInt32(payload.count)).dropFirst())
    bytes += [type.rawValue, flags]
    bytes += big(UInt32(stream))
    return bytes + payload
  }

  static func big(_ number: UInt32) -> [UInt8] {
    [UInt8(number >> 24), UInt8(number >> 16 & 255), UInt8(number >> 8 & 255), UInt8(number & 255)]
  }

  func settings(_ id: UInt8, _ value: UInt32) {
    send(.settings, [0, id] + Self.big(value))
  }

  func grant(_ bytes: UInt32, stream: Int32 = 0) {
    send(.windowUpdate, stream: stream, Self.big(bytes))
  }

  /// A request, with fields behind the usual ones.
  func request(_ stream: Int32, _ fields: [(String, String)] = [], end: Bool = true) {
    headers(stream, Self.usual + fields, end: end)
  }

  func headers(_ stream: Int32, _ fields: [(String, String)], end: Bool = true) {
    let flags = FrameFlag.endHeaders | (end ? FrameFlag.endStream : 0)
    send(.headers, flags: flags, stream: stream, Self.block(fields))
  }

  static let usual = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "localhost")]

  /// RFC 7541 §6.2.2: literals that leave the table alone, of less than 127 bytes each.
  static func block(_ fields: [(String, String)]) -> [UInt8] {
    var bytes: [UInt8] = []
    for (name, value) in fields {
      bytes += [0, UInt8(name.utf8.count)]
      bytes += name.utf8
      bytes.append(UInt8(value.utf8.count))
      bytes += value.utf8
    }
    return bytes
  }

  // MARK: Hearing

  /// What the server has said since the last time.
  func received() -> [Frame] {
    var frames: [Frame] = []
    repeat {
      server.produce()
      let bytes = Array(server.output.readableBytesView)
      server.output.clear()
      var index = 0
      while index + 9 <= bytes.count {
        let length = Int(bytes[index]) << 16 | Int(bytes[index + 1]) << 8 | Int(bytes[index + 2])
        let end = index + 9 + length
        let id = bytes[index + 5..<index + 9].reduce(0) { $0 << 8 | UInt32($1) }
        frames.append(
          Frame(
            type: bytes[index + 3],
            flags: bytes[index + 4],
            stream: Int32(bitPattern: id & 0x7fff_ffff),
            payload: Array(bytes[index + 9..<end])
          ))
        index = end
      }
    } while server.wantsToWrite
    return frames
  }

  /// Bytes of DATA by stream.
  func receivedData() -> [Int32: Int] {
    received().reduce(into: [:]) { sums, frame in
      if frame.type == FrameType.data.rawValue { sums[frame.stream, default: 0] += frame.payload.count }
    }
  }
}
