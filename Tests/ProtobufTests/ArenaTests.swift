import CProtobufC
import Testing

@testable import Protobuf

@Suite("Arena")
struct ArenaTests {
  /// Takes blocks of `size` bytes through the allocator that protobuf-c is given, until one is refused.
  func takeAll(_ size: Int, cap: Int) throws -> (blocks: Int, exhausted: Bool) {
    try Arena.withCurrent(cap: cap) { arena throws(ProtobufError) in
      var blocks = 0
      // The allocator lives as long as the arena; each block is `size` bytes that nothing else uses.
      while let block = unsafe arena.allocator.pointee.alloc(arena.allocator.pointee.allocator_data, size) {
        guard UInt(bitPattern: block) % 16 == 0 else { throw .malformed }
        unsafe block.initializeMemory(as: UInt8.self, repeating: 0xa5, count: size)
        blocks += 1
      }
      return (blocks, arena.isExhausted)
    }
  }

  @Test("memory ends at the cap", arguments: [(1, 1024), (100, 64 * 1024), (4096, 1 << 20), (40, 200_000)])
  func cap(size: Int, cap: Int) throws {
    let (blocks, exhausted) = try takeAll(size, cap: cap)
    let rounded = (size + 15) / 16 * 16
    #expect(exhausted)
    #expect(blocks * rounded <= cap)
    // Links between blocks and their ends cost less than a tenth.
    #expect(blocks * rounded >= cap * 9 / 10 - rounded)
  }

  @Test("a request larger than anything sensible is refused", arguments: [Int.max, -1, Limits.decodeCeiling + 1])
  func absurd(size: Int) throws {
    let isRefused = try Arena.withCurrent(cap: Limits.decodeCeiling) { arena throws(ProtobufError) in
      // The allocator lives as long as the arena.
      unsafe arena.allocator.pointee.alloc(arena.allocator.pointee.allocator_data, size) == nil && arena.isExhausted
    }
    #expect(isRefused)
  }

  @Test("one message's greed does not reach the next")
  func reuse() throws {
    let first = try takeAll(64, cap: 100_000)
    let second = try takeAll(64, cap: 100_000)
    #expect(first == second)
    #expect(try Arena.withCurrent(cap: 64) { arena throws(ProtobufError) in arena.isExhausted } == false)
  }

  @Test("a use within a use has memory of its own")
  func nested() throws {
    let isKept = try Arena.withCurrent(cap: 4096) { outer throws(ProtobufError) in
      let value = unsafe try outer.allocate(UInt64.self)
      // `value` belongs to the outer arena, which is in use until this closure returns.
      unsafe value.initialize(to: 42)
      _ = try Arena.withCurrent(cap: 4096) { inner throws(ProtobufError) in
        unsafe try inner.allocate(UInt8.self, count: 2048).initialize(repeating: 0xff, count: 2048)
      }
      return unsafe value.pointee == 42
    }
    #expect(isKept)
  }

  @Test("an error leaves the arena ready for the next message")
  func error() throws {
    #expect(throws: ProtobufError.needsMoreMemory) {
      try Arena.withCurrent(cap: 100) { arena throws(ProtobufError) in
        _ = unsafe try arena.allocate(UInt8.self, count: 1000)
      }
    }
    #expect(try takeAll(16, cap: 1024).blocks == 64)
  }

  @Test("the cap grows with the message, from a floor to a ceiling")
  func limits() {
    #expect(Limits.decodeCap(forWireBytes: 0) == Limits.decodeFloor)
    #expect(Limits.decodeCap(forWireBytes: 64 * 1024) == Limits.decodeFloor + 64 * 1024 * Limits.decodeFactor)
    #expect(Limits.decodeCap(forWireBytes: .max) == Limits.decodeCeiling)
    #expect(Limits.keptBlock < Limits.decodeFloor)
    #expect(Limits.decodeFloor < Limits.decodeCeiling)
  }
}
