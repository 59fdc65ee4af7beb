import HTTP2
import NIOCore

/// A server's HTTP/2 session, fed what comes after the client preface.
struct ServerFramesTarget: FuzzTarget {
  let name = "server-frames"

  private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]

  func run(_ input: UnsafeRawBufferPointer) {
    var now = NIODeadline.uptimeNanoseconds(1_000_000_000)
    let allocator = ByteBufferAllocator()
    guard let session = try? HTTP2Session(role: .server, allocator: allocator, now: now) else { return }
    let delegate = Delegate()
    session.delegate = delegate
    let budget = session.limits.outputBytes + 64 * 1024
    func feed(_ bytes: UnsafeRawBufferPointer) {
      // The session keeps no pointer.
      unsafe session.receive(bytes, now: now)
      do { try session.produce() } catch { session.terminate(.internalError) }
      precondition(session.output.readableBytes <= budget, "more output than its limit")
      precondition(session.openStreams <= Int(session.limits.concurrentStreams) + 1, "more streams than their limit")
      session.output.clear()
      now = now + .milliseconds(1)
    }
    unsafe Self.preface.withUnsafeBytes { unsafe feed($0) }
    unsafe input.forEachPiece { unsafe feed($0) }
    session.abandon()
    precondition(delegate.handlers.allSatisfy(\.isClosed), "a stream that never closed")
  }

  private final class Delegate: HTTP2SessionDelegate {
    var handlers: [CheckedHandler] = []

    func session(_ session: HTTP2Session, opened stream: HTTP2Stream) -> any HTTP2StreamHandler {
      let handler = CheckedHandler(session)
      handlers.append(handler)
      return handler
    }

    func session(_ session: HTTP2Session, receivedSettings acknowledged: Bool) {}
    func session(_ session: HTTP2Session, receivedPing payload: UInt64, acknowledged: Bool) {}
    func session(_ session: HTTP2Session, receivedGoAway code: HTTP2ErrorCode, lastStreamID: Int32, debug: [UInt8]) {}
  }
}
