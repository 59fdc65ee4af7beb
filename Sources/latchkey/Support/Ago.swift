import Glibc

/// Times as people say them. Scripts get RFC 3339.
enum Ago {
  /// Such as `3 minutes ago` or `in 2 days`, in the largest unit that fits.
  static func text(_ milliseconds: Int64, now: Int64 = Int64(time(nil)) * 1000) -> String {
    let seconds = (milliseconds - now) / 1000
    // To the minute, so that thirty days less a moment are a month as thirty days are.
    let distance = (abs(seconds) + 30) / 60 * 60
    let units: [(Int64, String)] = [
      (31_536_000, "year"), (2_592_000, "month"), (86_400, "day"), (3600, "hour"), (60, "minute"),
    ]
    guard let (length, name) = units.first(where: { distance >= $0.0 }) else {
      return seconds > 0 ? "in a moment" : "just now"
    }
    let count = distance / length
    let words = "\(count) \(name)\(count == 1 ? "" : "s")"
    return seconds > 0 ? "in \(words)" : "\(words) ago"
  }
}
