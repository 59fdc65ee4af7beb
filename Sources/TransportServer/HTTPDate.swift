internal import Glibc
internal import Synchronization

/// A time as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// Source: RFC 9110 §5.6.7.
enum HTTPDate {
  private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

  /// The last that was asked for: many answers are of one second.
  private static let last = Mutex((seconds: time_t(-1), text: ""))

  /// By the system's clock.
  static var now: String {
    let seconds = time(nil)
    return last.withLock { last in
      if last.seconds != seconds { last = (seconds, text(seconds)) }
      return last.text
    }
  }

  /// - Parameter seconds: since 1970, in UTC; not before, and within the years of four digits.
  static func text(_ seconds: time_t) -> String {
    var seconds = seconds
    // Both are this function's own, for as long as it runs; of the parts only numbers are read.
    var parts = unsafe tm()
    unsafe gmtime_r(&seconds, &parts)
    func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let (day, month) = unsafe (days[Int(parts.tm_wday)], months[Int(parts.tm_mon)])
    let clock = unsafe "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))"
    return unsafe "\(day), \(two(parts.tm_mday)) \(month) \(parts.tm_year + 1900) \(clock) GMT"
  }
}
