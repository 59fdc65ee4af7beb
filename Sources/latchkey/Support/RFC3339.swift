import LatchkeyModel

/// Times as people and JSON write them, such as `2026-11-01T18:00:00Z` (RFC 3339), as milliseconds since 1970.
enum RFC3339 {
  /// Nil for anything else. A leap second counts as the second after it; digits past the millisecond are dropped.
  static func milliseconds(_ text: String) -> Int64? {
    var rest = Substring(text)
    guard let year = number(&rest, 4), skip(&rest, "-"),
      let month = number(&rest, 2), (1...12).contains(month), skip(&rest, "-"),
      let day = number(&rest, 2), day >= 1, day <= daysIn(month, of: year),
      skip(&rest, "T") || skip(&rest, "t") || skip(&rest, " "),
      let hour = number(&rest, 2), hour < 24, skip(&rest, ":"),
      let minute = number(&rest, 2), minute < 60, skip(&rest, ":"),
      let second = number(&rest, 2), second <= 60,
      let fraction = fraction(&rest),
      let offset = offset(&rest), rest.isEmpty
    else { return nil }
    let days = CivilDate(year: year, month: month, day: day).daysSinceEpoch
    return (((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1000 + fraction
  }

  /// In UTC, with milliseconds when there are any.
  static func text(_ milliseconds: Int64) -> String {
    let (second, millisecond) = milliseconds.floorDivided(by: 1000)
    let (day, time) = second.floorDivided(by: 86_400)
    let date = CivilDate(daysSinceEpoch: day)
    var text = "\(pad(date.year, 4))-\(pad(date.month, 2))-\(pad(date.day, 2))T"
    text += "\(pad(time / 3600, 2)):\(pad(time / 60 % 60, 2)):\(pad(time % 60, 2))"
    if millisecond > 0 { text += ".\(pad(millisecond, 3))" }
    return text + "Z"
  }

  private static func number(_ rest: inout Substring, _ digits: Int) -> Int64? {
    let part = rest.prefix(digits)
    guard part.utf8.count == digits, part.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    rest = rest.dropFirst(digits)
    return Int64(part)
  }

  private static func skip(_ rest: inout Substring, _ character: Character) -> Bool {
    guard rest.first == character else { return false }
    rest = rest.dropFirst()
    return true
  }

  /// Milliseconds; zero when there is no fraction, nil for a point without digits.
  private static func fraction(_ rest: inout Substring) -> Int64? {
    guard skip(&rest, ".") else { return 0 }
    let digits = rest.prefix { ("0"..."9").contains($0) }
    guard !digits.isEmpty else { return nil }
    rest = rest[digits.endIndex...]
    return Int64((digits + "00").prefix(3))
  }

  /// Minutes east of UTC.
  private static func offset(_ rest: inout Substring) -> Int64? {
    if skip(&rest, "Z") || skip(&rest, "z") { return 0 }
    let sign: Int64
    if skip(&rest, "+") { sign = 1 } else if skip(&rest, "-") { sign = -1 } else { return nil }
    guard let hours = number(&rest, 2), hours < 24, skip(&rest, ":"), let minutes = number(&rest, 2), minutes < 60
    else { return nil }
    return sign * (hours * 60 + minutes)
  }

  private static func daysIn(_ month: Int64, of year: Int64) -> Int64 {
    switch month {
    case 4, 6, 9, 11: 30
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    default: 31
    }
  }

  private static func pad(_ value: Int64, _ width: Int) -> String {
    let text = String(value)
    return String(repeating: "0", count: max(0, width - text.count)) + text
  }
}
