/// Tells on standard error how far a test is: one live line on a terminal, a line now and then elsewhere.
struct LoadProgress {
  private let line = LiveLine()
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
    line.show("\(text) …")
    line.keep(text)
  }

  mutating func show(_ counts: LoadCounts, at time: Duration) {
    guard !isSilent, time >= due else { return }
    due = time + (line.isTerminal ? .milliseconds(500) : Self.pause)
    guard time > last.at, time > .milliseconds(100) else { return }
    let rate = Int(Double(counts.done - last.done) / ((time - last.at) / .seconds(1)))
    last = (time, counts.done)
    let elapsed = min(time, whole)
    line.show(
      ProgressBar.text(
        elapsed / whole, Int64(counts.done), "done, \(counts.failed) failed, \(rate) a second",
        .init(elapsed / .seconds(1), share: elapsed / whole, count: Int64(counts.done)), rate: false,
        columns: line.columns - 1))
    line.keep(
      "\(elapsed.components.seconds) of \(whole.components.seconds) s  \(rate) a second  "
        + "\(counts.done) done  \(counts.failed) failed")
  }

  func clear() {
    if !isSilent { line.clear() }
  }
}
