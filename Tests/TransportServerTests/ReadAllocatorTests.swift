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

  @Test("Over cleartext a connection reads all but its first bytes into the event loop's buffer")
  func shared() {
    let buffers = ReadBuffers()
    var pools = (0..<2).map { _ in NIOPooledRecvBufferAllocator(capacity: 1, recvAllocator: ReadAllocator(buffers)) }
    func read(_ index: Int, _ text: String) -> ByteBuffer {
      let (buffer, _) = pools[index].buffer(allocator: ByteBufferAllocator()) { $0.writeString(text) }
      pools[index].record(actualReadBytes: buffer.readableBytes)
      return buffer
    }
    for index in pools.indices {
      #expect(read(index, "first").capacity == Limits.keptReadBytes)
    }
    var storage: Set<UInt> = []
    for number in 0..<10 {
      let buffer = read(number % 2, "\(number)")
      #expect(String(buffer: buffer) == "\(number)" && buffer.capacity == Limits.readBytes)
      storage.insert(buffer.address)
      buffers.giveBack(buffer)
    }
    #expect(storage.count == 1)
  }
}

@Suite("Buffers that the connections of an event loop share")
struct ReadBuffersTests {
  private let buffers = ReadBuffers()
  private let allocator = ByteBufferAllocator()

  private func read(_ text: String) -> ByteBuffer {
    var buffer = buffers.take(allocator)
    buffer.writeString(text)
    return buffer
  }

  @Test("A buffer that somebody still has is not handed out again")
  func stillHeld() {
    let held = read("mine")
    buffers.giveBack(held)
    let other = read("others'")
    #expect(String(buffer: held) == "mine" && String(buffer: other) == "others'")
    #expect(held.address != other.address)
  }

  @Test("A slice of a buffer keeps it from being handed out again")
  func slice() {
    var buffer = read("mine, and more")
    let slice = buffer.readSlice(length: 4)
    buffers.giveBack(buffer)
    buffer = ByteBuffer()
    #expect(String(buffer: read("others'")) == "others'" && slice.map { String(buffer: $0) } == "mine")
  }

  @Test("What is kept of a nearly empty buffer is a copy; a full one is kept itself")
  func keep() {
    for (bytes, isCopied) in [(1, true), (Limits.readBytes / 2 - 1, true), (Limits.readBytes / 2, false)] {
      let text = String(repeating: "x", count: bytes)
      var buffer = read(text)
      let address = buffer.address
      let kept = buffers.keep(buffer)
      buffer = ByteBuffer()
      #expect(String(buffer: kept) == text && (kept.address != address) == isCopied)
      #expect(kept.storageCapacity <= 2 * bytes.nextPowerOf2)
      #expect((buffers.take(allocator).address == address) == isCopied)
    }
  }

  @Test("No more buffers are kept than some, and none of another size")
  func bounded() {
    let taken = (0..<10).map { _ in buffers.take(allocator) }
    for buffer in taken { buffers.giveBack(buffer) }
    buffers.giveBack(allocator.buffer(capacity: 100))
    #expect(buffers.count == Limits.spareReadBuffers)
  }

  @Test("Where nothing is taken nothing is kept, such as where all is read by TLS")
  func foreign() {
    for _ in 0..<3 { buffers.giveBack(allocator.buffer(capacity: Limits.readBytes)) }
    #expect(buffers.count == 0)
  }
}

extension ByteBuffer {
  /// Where its storage begins.
  fileprivate var address: UInt {
    unsafe withVeryUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
  }
}

extension Int {
  fileprivate var nextPowerOf2: Int { self <= 1 ? 1 : 1 << (Int.bitWidth - (self - 1).leadingZeroBitCount) }
}
