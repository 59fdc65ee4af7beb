package import LatchkeyModel

extension Timestamp {
  /// `2026-11-21T03:25:27.123Z` (RFC 3339).
  package var rfc3339: String {
    let milliseconds = millisecondsSinceEpoch - secondsSinceEpoch * 1000
    let (date, second) = civil
    func padded(_ number: Int64, _ width: Int) -> String {
      let digits = String(number)
      return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    let day = "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))"
    let time = "\(padded(second / 3600, 2)):\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2))"
    return "\(day)T\(time).\(padded(milliseconds, 3))Z"
  }
}
