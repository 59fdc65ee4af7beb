internal import Glibc
internal import Synchronization

/// Takes note of SIGTERM and SIGINT until `StopSignals` listens, in a process whose system drops what nobody listens
/// for: process 1, which a service is in its container.
///
/// Any other process ends by them, as it should until it serves. To block them would not do: the main thread's mask is
/// cleared when it begins to wait for tasks. Source: kill(2), "NOTES".
enum HeldSignals {
  private static let hasCome = Atomic<Bool>(false)

  static func hold() {
    guard getpid() == 1 else { return }
    // Made now, so that the handler only stores.
    hasCome.store(false, ordering: .relaxed)
    for number in [SIGTERM, SIGINT] {
      signal(number) { _ in HeldSignals.hasCome.store(true, ordering: .relaxed) }
    }
  }

  /// Whether one came before somebody listened.
  static var areAnyHeld: Bool { hasCome.load(ordering: .relaxed) }

  /// Says again what came before somebody listened.
  static func release() {
    guard areAnyHeld else { return }
    kill(getpid(), SIGTERM)
  }
}
