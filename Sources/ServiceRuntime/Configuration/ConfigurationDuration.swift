internal import LatchkeyModel

/// Lengths of time as configuration writes them: a whole number and its unit.
enum ConfigurationDuration {
  private static let units: [(suffix: String, milliseconds: Int64)] = [
    ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
  ]

  /// Nil for anything else than digits and a unit, and for more than a thousand years.
  static func parse(_ text: String) -> Duration? {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    let suffix = text.dropFirst(digits.count)
    guard let number = Int64(digits), let unit = units.first(where: { $0.suffix == suffix }) else { return nil }
    let (milliseconds, overflow) = number.multipliedReportingOverflow(by: unit.milliseconds)
    guard !overflow, milliseconds <= 365_000 * 86_400_000 else { return nil }
    return .milliseconds(milliseconds)
  }

  /// In the largest unit that says it exactly.
  static func text(_ duration: Duration) -> String {
    let milliseconds = duration.wholeMilliseconds
    for unit in units where milliseconds != 0 && milliseconds % unit.milliseconds == 0 {
      return "\(milliseconds / unit.milliseconds)\(unit.suffix)"
    }
    return "0s"
  }
}
