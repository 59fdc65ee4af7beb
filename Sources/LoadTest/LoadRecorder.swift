import Histogram

/// What a load test saw: latencies by series, what happened in each second, errors by reason, and broken promises.
///
/// Recorders of several processes are merged through ``lines()``.
package struct LoadRecorder: Sendable {
  /// The operations that ended in one second of the run.
  package struct Second: Sendable, Equatable {
    package var done = 0
    package var failed = 0
  }

  package private(set) var series: [String: Histogram<UInt64>] = [:]
  package private(set) var seconds: [Second] = []
  package private(set) var errors: [String: Int] = [:]
  /// What is worth counting and no error, such as how often a poll was told to slow down.
  package private(set) var notes: [String: Int] = [:]
  package private(set) var violations: [String] = []
  package private(set) var violationCount = 0
  private var redeemed: Set<String> = []

  package init() {}

  package var redeemedSessions: Int { redeemed.count }
  package var errorCount: Int { errors.values.reduce(0, +) }

  package mutating func record(_ latency: Duration, in name: String) {
    record(latency.nanoseconds, count: 1, in: name)
  }

  /// An operation ended well, that long after the start.
  package mutating func finished(at time: Duration) { second(of: time) { $0.done += 1 } }

  package mutating func failed(_ reason: String, at time: Duration) {
    errors[reason, default: 0] += 1
    second(of: time) { $0.failed += 1 }
  }

  package mutating func noted(_ what: String, count: Int = 1) { notes[what, default: 0] += count }

  /// The service broke a promise. All are counted, the first are named.
  package mutating func violated(_ what: String) {
    violationCount += 1
    if violations.count < Limits.namedViolations { violations.append(what) }
  }

  /// A confirmed sign-in was handed over as the session `id`; two sign-ins never share one.
  package mutating func redeemed(_ id: String) {
    if !redeemed.insert(id).inserted { violated("session \(id) was handed to two sign-ins") }
  }

  package mutating func merge(_ other: LoadRecorder) {
    for (name, histogram) in other.series { series[name, default: Self.emptyHistogram()].add(histogram) }
    for (index, value) in other.seconds.enumerated() {
      second(index) {
        $0.done += value.done
        $0.failed += value.failed
      }
    }
    errors.merge(other.errors, uniquingKeysWith: +)
    notes.merge(other.notes, uniquingKeysWith: +)
    for violation in other.violations { violated(violation) }
    violationCount += other.violationCount - other.violations.count
    for id in other.redeemed { redeemed(id) }
  }

  // MARK: Between processes

  /// One fact a line, a letter first.
  package func lines() -> String {
    var text = ""
    for (name, histogram) in series {
      for entry in histogram.recordedValues() { text += "h \(name) \(entry.value) \(entry.count)\n" }
    }
    for (index, second) in seconds.enumerated() { text += "t \(index) \(second.done) \(second.failed)\n" }
    for (reason, count) in errors { text += "e \(count) \(Self.oneLine(reason))\n" }
    for (what, count) in notes { text += "o \(count) \(Self.oneLine(what))\n" }
    for violation in violations { text += "v \(Self.oneLine(violation))\n" }
    text += "n \(violationCount - violations.count)\n"
    for id in redeemed { text += "s \(id)\n" }
    return text + "end\n"
  }

  /// Reads what ``lines()`` wrote; nil for anything else, also when its end is missing.
  package init?(lines: String) {
    var isWhole = false
    for line in lines.split(separator: "\n") {
      let words = line.split(separator: " ", maxSplits: 3).map(String.init)
      let rest = String(line.dropFirst(2))
      guard let letter = words.first else { return nil }
      switch (letter, words.count) {
      case ("h", 4):
        guard let value = UInt64(words[2]), let count = UInt64(words[3]) else { return nil }
        record(value, count: count, in: words[1])
      case ("t", 4):
        guard let index = Int(words[1]), let done = Int(words[2]), let failed = Int(words[3]),
          (0..<Limits.seconds).contains(index)
        else { return nil }
        second(index) { $0 = Second(done: done, failed: failed) }
      case ("e", 3...):
        guard let count = Int(words[1]) else { return nil }
        errors[String(rest.dropFirst(words[1].count + 1)), default: 0] += count
      case ("o", 3...):
        guard let count = Int(words[1]) else { return nil }
        noted(String(rest.dropFirst(words[1].count + 1)), count: count)
      case ("v", 2...): violated(rest)
      case ("n", 2):
        guard let more = Int(words[1]) else { return nil }
        violationCount += more
      case ("s", 2): redeemed(words[1])
      case ("end", 1): isWhole = true
      default: return nil
      }
    }
    guard isWhole else { return nil }
  }

  // MARK: Helpers

  private mutating func record(_ nanoseconds: UInt64, count: UInt64, in name: String) {
    let value = min(nanoseconds, Limits.longestLatency)
    series[name, default: Self.emptyHistogram()].record(value, count: count)
  }

  private static func emptyHistogram() -> Histogram<UInt64> {
    Histogram(highestTrackableValue: Limits.longestLatency, numberOfSignificantValueDigits: .three)
  }

  private mutating func second(of time: Duration, _ change: (inout Second) -> Void) {
    second(min(max(0, Int(time.components.seconds)), Limits.seconds - 1), change)
  }

  private mutating func second(_ index: Int, _ change: (inout Second) -> Void) {
    while seconds.count <= index { seconds.append(Second()) }
    change(&seconds[index])
  }

  private static func oneLine(_ text: String) -> String {
    String(text.map { $0.isNewline ? " " : $0 })
  }
}
