import Synchronization

/// Operation contexts of OpenSSL that are kept for reuse: making one costs as much as hashing a short message.
///
/// A context is used by one thread at a time; the pool hands it out and takes it back.
@safe final class ContextPool: @unchecked Sendable {
  private let make: () -> OpaquePointer?
  private let free: (OpaquePointer) -> Void
  private let idle = Mutex<[Context]>([])

  /// A context that is in the pool, and so in nobody's hands.
  @safe private struct Context: @unchecked Sendable {
    // The pointer is owned by whoever holds this value, one thread at a time.
    let pointer: OpaquePointer
  }

  init(make: @escaping () -> OpaquePointer?, free: @escaping (OpaquePointer) -> Void) {
    unsafe self.make = make
    unsafe self.free = free
  }

  deinit {
    idle.withLock { contexts in
      for context in contexts { unsafe free(context.pointer) }
    }
  }

  /// Runs `body` with a context that nobody else uses. Nil when none can be made.
  func withContext<Result>(_ body: (OpaquePointer) -> Result) -> Result? {
    let taken = idle.withLock { $0.popLast() }
    guard let context = unsafe taken?.pointer ?? make() else { return nil }
    defer {
      let kept = idle.withLock { contexts in
        guard contexts.count < Limits.idleContexts else { return false }
        unsafe contexts.append(Context(pointer: context))
        return true
      }
      if !kept { unsafe free(context) }
    }
    return unsafe body(context)
  }
}
