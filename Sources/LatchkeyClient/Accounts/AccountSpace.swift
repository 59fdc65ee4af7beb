import Synchronization

/// The directory of one subject on this device, for as long as that subject uses it.
///
/// A write belongs to the space that it was begun in. Once the switch to another subject has begun, the space takes no
/// more writes, and the switch waits for those under way: none of them can land in the other's directory.
public final class AccountSpace: Sendable {
  private struct State {
    var isLeft = false
    var lastWrite: UInt64 = 0
    var writes: [UInt64: @Sendable () -> Void] = [:]
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  /// True in a write, and in a step of a switch.
  @TaskLocal static var isInside = false

  public let namespace: String
  /// Made when the space is entered, for its owner alone (0700).
  public let directory: String
  /// A few fields, changed by writers of any thread; an actor would let a write begin after the space was left.
  private let state = Mutex(State())

  init(namespace: String, directory: String) {
    self.namespace = namespace
    self.directory = directory
  }

  /// Writes something that belongs to this subject. `body` is given the directory.
  ///
  /// Its task is cancelled when the caller's is, and when a switch has waited for it for long enough.
  ///
  /// Errors: ``AccountScopeError/left``, without calling `body`, once the switch away from here has begun.
  public func write<Value: Sendable>(
    _ body: @escaping @Sendable (_ directory: String) async throws -> Value
  ) async throws -> Value {
    let task = try state.withLock { state throws(AccountScopeError) in
      guard !state.isLeft else { throw .left }
      state.lastWrite += 1
      let id = state.lastWrite
      let task = Task { [directory] in
        defer { end(id) }
        return try await Self.$isInside.withValue(true) { try await body(directory) }
      }
      state.writes[id] = { task.cancel() }
      return task
    }
    return try await withTaskCancellationHandler {
      try await task.value
    } onCancel: {
      task.cancel()
    }
  }

  /// Takes no more writes, and returns when the last one has ended. Those that take longer than `patience` are cancelled.
  func leave(patience: Duration) async {
    state.withLock { $0.isLeft = true }
    let impatience = Task {
      try await Task.sleep(for: patience)
      for cancel in state.withLock({ Array($0.writes.values) }) { cancel() }
    }
    await withCheckedContinuation { continuation in
      let isEmpty = state.withLock { state in
        if !state.writes.isEmpty { state.waiting.append(continuation) }
        return state.writes.isEmpty
      }
      if isEmpty { continuation.resume() }
    }
    impatience.cancel()
  }

  private func end(_ id: UInt64) {
    let waiting = state.withLock { state in
      state.writes[id] = nil
      guard state.writes.isEmpty else { return [CheckedContinuation<Void, Never>]() }
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }
}
