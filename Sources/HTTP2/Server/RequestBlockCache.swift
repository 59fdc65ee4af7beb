#if canImport(Glibc)
  internal import Glibc
#else
  internal import Darwin
#endif

/// The latest header blocks of a connection by their bytes on the wire, for blocks that left the compression table as
/// it was: the same bytes stand for the same fields until the table changes.
struct RequestBlockCache {
  private struct Entry {
    var bytes: [UInt8]
    var block: HTTP2RequestBlock
  }

  private var entries: [Entry] = []
  private var next = 0

  /// What all of them stand for, as RFC 9113 §6.5.2 counts.
  private(set) var listBytes = 0

  /// The table changed: what was remembered may mean something else.
  mutating func removeAll() {
    if !entries.isEmpty { entries.removeAll(keepingCapacity: true) }
    next = 0
    listBytes = 0
  }

  func find(_ bytes: UnsafeRawBufferPointer) -> HTTP2RequestBlock? {
    let count = bytes.count
    for index in entries.indices {
      // Read only, and only within the closure.
      let isSame = unsafe entries[index].bytes.withUnsafeBytes { known in
        guard known.count == count, let known = known.baseAddress, let bytes = bytes.baseAddress else { return false }
        return unsafe memcmp(known, bytes, count) == 0
      }
      if isSame { return entries[index].block }
    }
    return nil
  }

  mutating func insert(_ bytes: UnsafeRawBufferPointer, _ block: HTTP2RequestBlock) {
    guard bytes.count > 0, bytes.count <= Limits.rememberedBlockBytes else { return }
    // Copied before the call returns.
    let entry = unsafe Entry(bytes: Array(bytes), block: block)
    listBytes += block.listBytes
    if entries.count < Limits.rememberedBlocks {
      entries.append(entry)
    } else {
      listBytes -= entries[next].block.listBytes
      entries[next] = entry
      next = (next + 1) % Limits.rememberedBlocks
    }
  }
}
