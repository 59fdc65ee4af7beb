import NIOCore
import Testing

@testable import TransportServer

@Suite("Buffers for reading")
struct ReadAllocatorTests {
  @Test("A connection reads much into large buffers, and keeps none of them")
  func burst() {
    var pool = NIOPooledRecvBufferAllocator(capacity: 1, recvAllocator: ReadAllocator())
    func read(_ bytes: Int) -> Int {
      let (buffer, _) = pool.buffer(allocator: ByteBufferAllocator()) { buffer in
        buffer.writeRepeatingByte(1, count: min(bytes, buffer.writableBytes))
      }
      pool.record(actualReadBytes: buffer.readableBytes)
      return buffer.capacity
    }
    let burst = (0..<20).map { _ in read(.max) }
    #expect(burst.last == Limits.readBytes)
    // Down to what is kept, which is the first one, and used again.
    let quiet = (0..<40).map { _ in read(100) }
    #expect(quiet.suffix(10).allSatisfy { $0 <= Limits.keptReadBytes })
    #expect(pool.count == 1)
  }
}
