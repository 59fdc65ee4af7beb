/// A day of the Gregorian calendar, in UTC.
package struct CivilDate: Sendable, Equatable {
  package let year: Int64
  package let month: Int64
  package let day: Int64

  /// Must be a day that there is.
  package init(year: Int64, month: Int64, day: Int64) {
    self.year = year
    self.month = month
    self.day = day
  }

  // Howard Hinnant's algorithms: years begin on 1 March, so that a leap day is the last of its year, and 400 of them are
  // an era of always as many days.
  private static let daysOfEra: Int64 = 146_097
  /// From 1 March of the year 0 to 1 January 1970.
  private static let epoch: Int64 = 719_468

  package init(daysSinceEpoch days: Int64) {
    let (era, day) = (days + Self.epoch).floorDivided(by: Self.daysOfEra)
    let yearOfEra = (day - day / 1460 + day / 36_524 - day / 146_096) / 365
    let dayOfYear = day - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let month = (5 * dayOfYear + 2) / 153
    self.init(
      year: era * 400 + yearOfEra + (month >= 10 ? 1 : 0),
      month: month < 10 ? month + 3 : month - 9,
      day: dayOfYear - (153 * month + 2) / 5 + 1
    )
  }

  package var daysSinceEpoch: Int64 {
    let (era, yearOfEra) = (month > 2 ? year : year - 1).floorDivided(by: 400)
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * Self.daysOfEra + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - Self.epoch
  }
}

extension Timestamp {
  /// The day, and the second of it.
  package var civil: (date: CivilDate, second: Int64) {
    let (days, second) = secondsSinceEpoch.floorDivided(by: 86_400)
    return (CivilDate(daysSinceEpoch: days), second)
  }
}

extension Int64 {
  /// The quotient rounded down, and the remainder, which is never negative.
  package func floorDivided(by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
    let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
  }
}
