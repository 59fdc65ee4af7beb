/// Says once that something does not work, and not before it may be expected to: the services of an installation start
/// and restart side by side, and one that waits for another has nothing to warn of.
package struct PatientWarning {
  private let patience: Duration
  private var since: ContinuousClock.Instant?
  private var isSaid = false

  package init(_ patience: Duration = Limits.peerPatience) {
    self.patience = patience
  }

  package mutating func succeeded() {
    since = nil
    isSaid = false
  }

  /// Whether it is time to say so.
  package mutating func failed(at now: ContinuousClock.Instant = .now) -> Bool {
    let start = since ?? now
    since = start
    guard !isSaid, now - start >= patience else { return false }
    isSaid = true
    return true
  }
}
