/// How far something is, how fast, and how long it will take: one live line at a terminal, nothing elsewhere.
struct ProgressBar {
  private let line = LiveLine()
  private let start = ContinuousClock.now
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
    line.show(Self.text(share, count, unit, after: start.duration(to: now) / .seconds(1), columns: line.columns - 1))
  }

  mutating func clear() {
    if shownAt != nil { line.clear() }
    shownAt = nil
  }

  /// The parts that fit, the most telling first: share, time left, count, rate, and a bar in what room is left.
  ///
  /// - Parameter rate: whether the mean rate is told.
  static func text(
    _ share: Double?, _ count: Int64, _ unit: String, after seconds: Double, rate: Bool = true, columns: Int
  ) -> String {
    var parts: [String] = []
    if let share { parts.append("\(Int(min(1, share) * 100)) %") }
    if let share, share > 0, share < 1, seconds > 0.2 {
      parts.append("\(time(seconds / min(1, share) - seconds)) left")
    }
    parts.append("\(count) \(unit)")
    if rate, seconds > 0.2 { parts.append("\(Int64(Double(count) / seconds)) a second") }
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
