/// How far something is, how fast, and how long it will take: one live line at a terminal, nothing elsewhere.
struct ProgressBar {
  private let line = LiveLine()
  private var first: (time: ContinuousClock.Instant, share: Double, count: Int64)?
  private var shownAt: ContinuousClock.Instant?

  /// Where lines are not written anew, somebody else says how far it is.
  var isShown: Bool { line.isTerminal }

  /// - Parameters:
  ///   - share: how much of all is done, of 1; nil where nobody knows how much there is.
  ///   - count: how many are done.
  ///   - unit: what they are, such as `records`.
  mutating func show(_ share: Double?, _ count: Int64, _ unit: String) {
    let now = ContinuousClock.now
    guard line.isTerminal, shownAt.map({ $0.duration(to: now) > .milliseconds(100) }) ?? true else { return }
    shownAt = now
    let first = first ?? (now, share ?? 0, count)
    self.first = first
    let seconds = first.time.duration(to: now) / .seconds(1)
    let pace = seconds > 0.2 ? Pace(seconds, share: (share ?? 0) - first.share, count: count - first.count) : nil
    line.show(Self.text(share, count, unit, pace, columns: line.columns - 1))
  }

  mutating func clear() {
    if shownAt != nil { line.clear() }
    shownAt = nil
  }

  /// How much was done in the seconds since the bar was first shown; what was done before is somebody else's pace.
  struct Pace {
    let shareASecond: Double
    let countASecond: Double

    init(_ seconds: Double, share: Double, count: Int64) {
      shareASecond = share / seconds
      countASecond = Double(count) / seconds
    }
  }

  /// The parts that fit, the most telling first: share, time left, count, rate, and a bar in what room is left.
  ///
  /// - Parameters:
  ///   - pace: nil while it is too early to tell.
  ///   - rate: whether the mean rate is told.
  static func text(
    _ share: Double?, _ count: Int64, _ unit: String, _ pace: Pace?, rate: Bool = true, columns: Int
  ) -> String {
    var parts: [String] = []
    if let share { parts.append("\(Int(min(1, share) * 100)) %") }
    if let share, share < 1, let pace, pace.shareASecond > 0 {
      parts.append("\(time((1 - share) / pace.shareASecond)) left")
    }
    parts.append("\(count) \(unit)")
    if rate, let pace { parts.append("\(Int64(pace.countASecond)) a second") }
    while parts.count > 1, parts.joined(separator: "  ").count >= columns { parts.removeLast() }
    let text = parts.joined(separator: "  ")
    let room = min(30, columns - text.count - 5)
    guard let share, room >= 8 else { return text }
    let filled = Int(min(1, share) * Double(room))
    return "[\(String(repeating: "#", count: filled))\(String(repeating: ".", count: room - filled))]  \(text)"
  }

  private static func time(_ seconds: Double) -> String {
    let seconds = Int(min(seconds, 359_999)) + 1
    let (minutes, rest) = (seconds / 60, seconds % 60)
    return minutes == 0 ? "\(rest) s" : "\(minutes):\(rest < 10 ? "0" : "")\(rest)"
  }
}
