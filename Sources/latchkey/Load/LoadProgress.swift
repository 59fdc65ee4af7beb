import Glibc

/// Tells on standard error how far a test is: one live line on a terminal, a line now and then elsewhere.
struct LoadProgress {
  private let isTerminal = isatty(STDERR_FILENO) == 1
  private let isSilent: Bool
  private let whole: Duration
  private var last = (at: Duration.zero, done: 0)
  private var due = Duration.zero

  /// How often a line is written where it stays.
  private static let pause: Duration = .seconds(10)

  init(_ plan: LoadPlan, isSilent: Bool) {
    self.isSilent = isSilent
    whole = plan.end
  }

  /// Preparations are over up to here.
  func stage(_ text: String) {
    guard !isSilent else { return }
    write(isTerminal ? "\r\u{1B}[K\(text) …" : "\(text)\n")
  }

  mutating func show(_ counts: LoadCounts, at time: Duration) {
    guard !isSilent, time >= due else { return }
    let every: Duration = isTerminal ? .milliseconds(500) : Self.pause
    due = time + every
    guard time > last.at, time > .milliseconds(100) else { return }
    let rate = Int(Double(counts.done - last.done) / ((time - last.at) / .seconds(1)))
    last = (time, counts.done)
    let text = "\(min(time, whole).components.seconds) of \(whole.components.seconds) s  \(rate) a second  "
      + "\(counts.done) done  \(counts.failed) failed"
    write(isTerminal ? "\r\u{1B}[K\(text)" : text + "\n")
  }

  func clear() {
    if isTerminal, !isSilent { write("\r\u{1B}[K") }
  }

  private func write(_ text: String) {
    // write reads the array's bytes and keeps nothing; a lost progress line is no loss.
    _ = unsafe Array(text.utf8).withUnsafeBytes { unsafe Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
