import Glibc
import Synchronization

/// Memory for entries of a poll table, on huge pages where the system gives them: among a million sessions a poll would
/// otherwise wait for the translation of its entry's address about as long as for the entry.
///
/// What is taken stays taken while the table lives, as the capacity of an array does.
final class PollMemory: Sendable {
  /// A huge page of x86-64, and of 64-bit ARM with pages of 4 KiB.
  private static let pieceBytes = 2 << 20

  @safe
  private struct Pieces {
    var all: [UnsafeMutableRawPointer] = unsafe []
    /// How much of the last one is taken.
    var taken = PollMemory.pieceBytes

    // Only `PollMemory` frees them, when nobody has a block any more.
    func free() {
      for unsafe piece in unsafe all { unsafe piece.deallocate() }
    }
  }

  private let pieces = Mutex(Pieces())
  private let count = Atomic<Int>(0)

  /// How many huge pages were taken.
  var pieceCount: Int { count.load(ordering: .relaxed) }

  /// Uninitialized memory, aligned to its size, that lives as long as this object. A huge page is a multiple of `bytes`.
  @unsafe
  func block(bytes: Int) -> UnsafeMutableRawPointer {
    precondition(bytes > 0 && Self.pieceBytes % bytes == 0, "blocks fill a huge page")
    return unsafe pieces.withLock { pieces in
      if pieces.taken == Self.pieceBytes {
        let piece = UnsafeMutableRawPointer.allocate(byteCount: Self.pieceBytes, alignment: Self.pieceBytes)
        // Advice: where it is not taken, or the system has no such pages, ordinary ones serve.
        _ = unsafe madvise(piece, Self.pieceBytes, MADV_HUGEPAGE)
        unsafe pieces.all.append(piece)
        count.add(1, ordering: .relaxed)
        pieces.taken = 0
      }
      defer { pieces.taken += bytes }
      // The piece has `bytes` left: `taken` is a multiple of them and not the end.
      return unsafe pieces.all[pieces.all.count - 1] + pieces.taken
    }
  }

  deinit {
    pieces.withLock { $0.free() }
  }
}
