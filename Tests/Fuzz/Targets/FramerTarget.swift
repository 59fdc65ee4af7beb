import GRPC
import NIOCore

/// gRPC's length-prefixed messages, plain and compressed: however the bytes are cut, the same messages come out.
struct FramerTarget: FuzzTarget {
  let name = "framer"

  /// Small, so that inputs of the usual size go beyond it.
  private static let limit = 256

  private struct Outcome: Equatable {
    var messages: [ByteBuffer] = []
    var failure: StatusCode?
    var isBetweenMessages = true
  }

  func run(_ input: UnsafeRawBufferPointer) {
    guard input.count > 1 else { return }
    // In bounds by the line above; neither closure keeps a pointer.
    let whole = unsafe outcome { receive in unsafe receive(UnsafeRawBufferPointer(rebasing: input[1...])) }
    let cut = unsafe outcome { receive in unsafe input.forEachPiece { unsafe receive($0) } }
    precondition(whole == cut, "where a read ends made a difference")
  }

  private func outcome(_ feed: ((UnsafeRawBufferPointer) -> Void) -> Void) -> Outcome {
    var framer = MessageFramer(limit: Self.limit)
    framer.coding = .gzip
    var outcome = Outcome()
    unsafe feed { bytes in
      guard outcome.failure == nil else { return }
      do throws(RPCError) {
        // Read within the call only.
        try unsafe framer.receive(bytes) { message throws(RPCError) in
          precondition(message.bytes.readableBytes <= Self.limit, "a message beyond its limit")
          let expanded = try message.expanded(limit: Self.limit)
          precondition(expanded.readableBytes <= Self.limit, "an expanded message beyond its limit")
          outcome.messages.append(expanded)
        }
      } catch {
        outcome.failure = error.code
      }
    }
    if outcome.failure == nil { outcome.isBetweenMessages = framer.isBetweenMessages }
    return outcome
  }
}
