import HTTP2
import NIOCore

/// A client's HTTP/2 session with four requests on their way, fed what a hostile server answers.
struct ClientFramesTarget: FuzzTarget {
  let name = "client-frames"

  private static let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]

  func run(_ input: UnsafeRawBufferPointer) {
    var now = NIODeadline.uptimeNanoseconds(1_000_000_000)
    guard let session = try? HTTP2ClientSession(allocator: ByteBufferAllocator(), now: now) else { return }
    session.delegate = Delegate()
    var handlers: [CheckedHandler] = []
    func feed(_ bytes: UnsafeRawBufferPointer) {
      // The session keeps no pointer.
      unsafe session.receive(bytes, now: now)
      do { try session.produce() } catch { session.terminate(.internalError) }
      session.output.clear()
      now = now + .milliseconds(1)
    }
    unsafe Self.settings.withUnsafeBytes { unsafe feed($0) }
    for _ in 0..<4 {
      let handler = CheckedHandler(
        hasFields: false,
        CheckedHandler.Actions(
          consume: { session.consume($0, $1) },
          reset: { session.reset($0, .cancel) },
          answer: { session.finish($0) }
        )
      )
      var fields = HTTP2FieldList()
      fields.add(":method", "POST")
      fields.add(":scheme", "http")
      fields.add(":path", "/t.T/Echo")
      fields.add(":authority", "localhost")
      guard let stream = try? session.request(fields, handler: handler) else { continue }
      handlers.append(handler)
      session.write(stream) { $0.writeRepeatingByte(7, count: 100) }
      if handlers.count > 2 { session.finish(stream) }
    }
    unsafe input.forEachPiece { unsafe feed($0) }
    session.abandon()
    precondition(handlers.allSatisfy(\.isClosed), "a stream that never closed")
  }

  private final class Delegate: HTTP2ClientSessionDelegate {
    func session(_ session: HTTP2ClientSession, receivedSettings acknowledged: Bool) {}
    func session(_ session: HTTP2ClientSession, receivedPing payload: UInt64, acknowledged: Bool) {}
    func session(
      _ session: HTTP2ClientSession,
      receivedGoAway code: HTTP2ErrorCode,
      lastStreamID: Int32,
      debug: [UInt8]
    ) {}
  }
}
