import LatchkeyModel
import Testing

@Suite("Days of the calendar")
struct CivilDateTests {
  @Test(
    "known days have their number",
    arguments: [
      (CivilDate(year: 1970, month: 1, day: 1), 0), (CivilDate(year: 1969, month: 12, day: 31), -1),
      (CivilDate(year: 2000, month: 2, day: 29), 11_016), (CivilDate(year: 1900, month: 3, day: 1), -25_508),
      (CivilDate(year: 2038, month: 1, day: 19), 24_855), (CivilDate(year: 1, month: 1, day: 1), -719_162),
      (CivilDate(year: 9999, month: 12, day: 31), 2_932_896),
    ] as [(CivilDate, Int64)]
  )
  func known(_ date: CivilDate, _ days: Int64) {
    #expect(date.daysSinceEpoch == days)
    #expect(CivilDate(daysSinceEpoch: days) == date)
  }

  @Test("each day of 800 years follows the one before it")
  func succession() {
    var before = CivilDate(daysSinceEpoch: -146_098)
    for days in Int64(-146_097)...146_097 {
      let date = CivilDate(daysSinceEpoch: days)
      #expect(date.daysSinceEpoch == days)
      let isNext =
        date == CivilDate(year: before.year, month: before.month, day: before.day + 1)
        || (date.day == 1 && date.month == before.month % 12 + 1 && before.day >= 28)
      if !isNext { Issue.record("\(date) follows \(before)") }
      before = date
    }
  }

  @Test("division rounds down, and leaves no negative remainder")
  func floorDivision() {
    #expect(Int64(-1).floorDivided(by: 7) == (-1, 6))
    #expect(Int64(-7).floorDivided(by: 7) == (-1, 0))
    #expect(Int64(13).floorDivided(by: 7) == (1, 6))
  }
}
