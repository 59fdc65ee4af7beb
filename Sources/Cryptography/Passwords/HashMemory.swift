import CArgon2
import Glibc
import Synchronization

/// The memory that Argon2 works in, some 19 MiB for each hash: kept for the next one, until it is given back.
///
/// By `malloc` a block would stay at the end of its thread's own part of the heap, from where nothing gives it back to the
/// system; made anew for each hash its pages take half as long as the hash.
@safe package final class HashMemory: @unchecked Sendable {
  // Unchecked: the addresses are behind the lock, and each belongs to one hash while it is taken.

  /// libargon2 tells its allocator nothing but sizes, so there is one for all.
  package static let shared = HashMemory()

  @safe private struct Block: @unchecked Sendable {
    // Unchecked: an address, whose memory belongs to whoever has taken the block.
    let start: UnsafeMutableRawPointer
    let count: Int
  }

  private let kept = Mutex<[Block]>([])

  init() {}

  /// Bytes that no hash uses just now.
  package var keptBytes: Int { kept.withLock { $0.reduce(0) { $0 + $1.count } } }

  /// Gives what no hash uses back to the system.
  package func giveBack() {
    let blocks = kept.withLock { kept in
      defer { kept = [] }
      return kept
    }
    // Nobody else has them any more.
    for block in blocks { unsafe munmap(block.start, block.count) }
  }

  /// Zeros, or what a hash has left, which libargon2 has wiped. Nil when the system has none.
  func take(_ count: Int) -> UnsafeMutableRawPointer? {
    let block = kept.withLock { kept -> Block? in
      guard let index = kept.firstIndex(where: { $0.count == count }) else { return nil }
      return kept.remove(at: index)
    }
    if let block { return unsafe block.start }
    let start = unsafe mmap(nil, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    guard let start = unsafe start, unsafe start != MAP_FAILED else { return nil }
    // A tenth of the time for its pages. Only advice: a system without large pages gives small ones.
    unsafe madvise(start, count, MADV_HUGEPAGE)
    return unsafe start
  }

  /// Keeps what `take` gave.
  func keep(_ start: UnsafeMutableRawPointer, _ count: Int) {
    kept.withLock { unsafe $0.append(Block(start: start, count: count)) }
  }

  /// Has `context` take its memory here.
  static func provide(for context: inout argon2_context) {
    unsafe context.allocate_cbk = { place, count in
      guard let start = unsafe HashMemory.shared.take(count) else { return ARGON2_MEMORY_ALLOCATION_ERROR.rawValue }
      // libargon2 gives the address of a pointer of its own.
      unsafe place?.pointee = unsafe start.assumingMemoryBound(to: UInt8.self)
      return ARGON2_OK.rawValue
    }
    unsafe context.free_cbk = { start, count in
      // What the callback above gave, wiped by now.
      if let start = unsafe start { unsafe HashMemory.shared.keep(start, count) }
    }
  }
}
