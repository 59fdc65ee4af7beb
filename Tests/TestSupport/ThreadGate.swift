import Dispatch

/// Keeps threads waiting until it is opened.
package final class ThreadGate: Sendable {
  private let passed = DispatchSemaphore(value: 0)

  package init() {}

  /// Returns when the gate is open.
  package func wait() {
    passed.wait()
    passed.signal()
  }

  package func open() { passed.signal() }
}
