import CPrefetch

/// The entries of one shard: an array that grows by blocks and never moves what it has.
@safe
struct PollEntries {
  /// 8 KiB: 256 shards with a block each take one huge page.
  private static let blockCount = 128

  /// What keeps the blocks alive.
  private let memory: PollMemory
  private var blocks: [UnsafeMutablePointer<PollEntry>] = unsafe []
  private var count = 0

  init(memory: PollMemory) {
    self.memory = memory
    precondition(MemoryLayout<PollEntry>.stride == 64, "an entry fills one line of a cache")
  }

  /// Returns the new entry's number.
  mutating func append(_ entry: PollEntry) -> UInt32 {
    if unsafe count == blocks.count * Self.blockCount {
      // Fresh memory of that size. Entries are plain bytes: nothing has to be released when it goes.
      unsafe blocks.append(
        memory.block(bytes: Self.blockCount * MemoryLayout<PollEntry>.stride)
          .bindMemory(to: PollEntry.self, capacity: Self.blockCount))
    }
    let number = UInt32(count)
    count += 1
    // Within the last block, of memory that `memory` keeps.
    unsafe pointer(number).initialize(to: entry)
    return number
  }

  /// A number that `append` returned.
  subscript(number: UInt32) -> PollEntry {
    // Initialized, since it is below `count`; nobody else reaches it, since its owner is under a lock.
    _read { yield unsafe pointer(number).pointee }
    _modify { yield unsafe &pointer(number).pointee }
  }

  /// Has the processor fetch an entry, of a number that `append` returned.
  func fetch(_ number: UInt32) {
    // Nothing is read.
    unsafe latchkey_prefetch(pointer(number))
  }

  @unsafe
  private func pointer(_ number: UInt32) -> UnsafeMutablePointer<PollEntry> {
    precondition(number < count, "an entry that is there")
    return unsafe blocks[Int(number) / Self.blockCount] + Int(number) % Self.blockCount
  }
}
