import GRPC
import LatchkeyProtos
import NIOCore

/// Every message type that a peer may send: what decodes encodes, and then stays the same.
struct MessagesTarget: FuzzTarget {
  let name = "messages"

  func run(_ input: UnsafeRawBufferPointer) {
    guard input.count >= 2 else { return }
    let types = LatchkeyDescriptors.messages
    // In bounds by the first line; no pointer is kept.
    let type = unsafe types[(Int(input[0]) << 8 | Int(input[1])) % types.count]
    unsafe check(type, UnsafeRawBufferPointer(rebasing: input[2...]))
  }

  private func check<Message: RPCMessage>(_ type: Message.Type, _ bytes: UnsafeRawBufferPointer) {
    guard let message = unsafe try? type.init(decoding: bytes) else { return }
    var first = ByteBuffer()
    guard (try? message.encode(into: &first)) != nil else { return }
    do throws(RPCError) {
      var second = ByteBuffer()
      try type.init(decoding: first).encode(into: &second)
      precondition(first == second, "\(type) changes each time it is encoded")
    } catch {
      preconditionFailure("\(type) does not decode what it encoded: \(error)")
    }
  }
}

extension RPCMessage {
  fileprivate init(decoding buffer: ByteBuffer) throws(RPCError) {
    // Read within the closure only.
    let result = unsafe buffer.withUnsafeReadableBytes { bytes -> Result<Self, RPCError> in
      do throws(RPCError) { return .success(unsafe try Self(decoding: bytes)) } catch { return .failure(error) }
    }
    self = try result.get()
  }
}
