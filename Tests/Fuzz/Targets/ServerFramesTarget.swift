import HTTP2
import NIOCore

/// A server's HTTP/2 session, fed what comes after the client preface.
struct ServerFramesTarget: FuzzTarget {
  let name = "server-frames"

  private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]

  private static let common: HTTP2CommonAnswer = {
    var common = HTTP2CommonAnswer()
    common.head.add(":status", "200")
    common.head.add("content-type", "application/grpc")
    common.trailers.add("grpc-status", "0")
    return common
  }()

  func run(_ input: UnsafeRawBufferPointer) {
    var now = NIODeadline.uptimeNanoseconds(1_000_000_000)
    guard let session = try? HTTP2ServerSession(common: Self.common, allocator: ByteBufferAllocator(), now: now) else {
      return
    }
    let delegate = Delegate()
    session.delegate = delegate
    // The limit on waiting output, the last turn of each stream, and the answers to one piece.
    let budget = session.limits.outputBytes + 1024 * 1024
    func feed(_ bytes: UnsafeRawBufferPointer) {
      // The session keeps no pointer.
      unsafe session.receive(bytes, now: now)
      session.produce()
      precondition(session.output.readableBytes <= budget, "more output than its limit")
      precondition(session.openStreams <= Int(session.limits.concurrentStreams), "more streams than their limit")
      session.output.clear()
      precondition(session.bufferedBytes >= 0, "bytes that were never there")
      now = now + .milliseconds(1)
    }
    unsafe Self.preface.withUnsafeBytes { unsafe feed($0) }
    unsafe input.forEachPiece { unsafe feed($0) }
    session.abandon()
    precondition(delegate.handlers.allSatisfy(\.isClosed), "a stream that never closed")
  }

  private final class Delegate: HTTP2ServerSessionDelegate {
    var handlers: [CheckedHandler] = []

    func session(_ session: HTTP2ServerSession, received block: HTTP2RequestBlock) {
      // The pointers are valid during each call, and none is kept.
      unsafe block.forEach { name, _ in
        precondition(name.count > 0, "a field without a name")
        return true
      }
      block.allowsDirectAnswer = true
    }

    func session(
      _ session: HTTP2ServerSession,
      answersDirectly stream: HTTP2Stream,
      _ block: HTTP2RequestBlock,
      _ body: UnsafeRawBufferPointer
    ) -> Bool {
      guard body.count % 2 == 0 else { return false }
      // Read during the call.
      var message = unsafe ByteBuffer(bytes: body)
      session.answer(stream, &message)
      return true
    }

    func session(
      _ session: HTTP2ServerSession,
      opened stream: HTTP2Stream,
      _ block: HTTP2RequestBlock
    ) -> any HTTP2StreamHandler {
      let handler = CheckedHandler(
        hasFields: true,
        CheckedHandler.Actions(
          consume: { session.consume($0, $1) },
          reset: { session.reset($0, .refusedStream) },
          answer: { stream in
            session.respond(stream, nil)
            session.write(stream) { $0.writeRepeatingByte(7, count: 5000) }
            session.finishCommon(stream)
          }
        )
      )
      handlers.append(handler)
      return handler
    }

    func session(_ session: HTTP2ServerSession, receivedSettings acknowledged: Bool) {}
    func session(_ session: HTTP2ServerSession, receivedPing payload: UInt64, acknowledged: Bool) {}
  }
}
