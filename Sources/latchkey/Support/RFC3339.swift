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
    let days = daysSinceEpoch(year, month, day)
    return (((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1000 + fraction
  }

  /// In UTC, with milliseconds when there are any.
  static func text(_ milliseconds: Int64) -> String {
    let (second, millisecond) = floorDivide(milliseconds, 1000)
    let (day, time) = floorDivide(second, 86_400)
    let (year, month, date) = civil(day)
    var text = "\(pad(year, 4))-\(pad(month, 2))-\(pad(date, 2))T"
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

  // Days in the Gregorian calendar, counted in years that begin on 1 March so that a leap day comes last.

  private static func daysSinceEpoch(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shifted = month > 2 ? year : year - 1
    let (era, yearOfEra) = floorDivide(shifted, 400)
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  private static func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let (era, day) = floorDivide(days + 719_468, 146_097)
    let yearOfEra = (day - day / 1460 + day / 36_524 - day / 146_096) / 365
    let dayOfYear = day - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let month = (5 * dayOfYear + 2) / 153
    let year = era * 400 + yearOfEra + (month >= 10 ? 1 : 0)
    return (year, month < 10 ? month + 3 : month - 9, dayOfYear - (153 * month + 2) / 5 + 1)
  }

  private static func floorDivide(_ value: Int64, _ divisor: Int64) -> (Int64, Int64) {
    let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }

  private static func pad(_ value: Int64, _ width: Int) -> String {
    let text = String(value)
    return String(repeating: "0", count: max(0, width - text.count)) + text
  }
}
