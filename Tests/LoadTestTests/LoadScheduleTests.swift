import Testing

@testable import LoadTest

@Suite("When an open loop's operations are due")
struct LoadScheduleTests {
  /// How many are due before each whole second.
  private func counts(_ schedule: LoadSchedule, seconds: Int) -> [Int] {
    var counts: [Int] = []
    var number = 0
    for second in 1...seconds {
      while schedule.due(number) < .seconds(second) { number += 1 }
      counts.append(number)
    }
    return counts
  }

  @Test("In the ramp each second has more than the one before by the same number, and after it all have the rate")
  func counts() {
    // From 0 to 1000 a second in 10 s: 50 in the first second, 150 in the next.
    let counts = counts(LoadSchedule(rate: 1000, ramp: .seconds(10)), seconds: 15)
    let each = zip(counts, [0] + counts).map { $0 - $1 }
    #expect(each == (0..<10).map { 50 + 100 * $0 } + [Int](repeating: 1000, count: 5))
  }

  @Test(
    "Each is due after the one before, by less and less until the ramp ends, and then by the rate's interval",
    arguments: [(1.0, 3.0), (37.5, 2), (1000, 10), (60_000, 1), (100, 0)])
  func intervals(rate: Double, ramp: Double) throws {
    let schedule = LoadSchedule(rate: rate, ramp: .seconds(ramp))
    let inRamp = Int((rate * ramp / 2).rounded(.up))
    let interval = 1 / rate
    var last = Double.infinity
    for number in 1..<max(2, inRamp) where inRamp > 1 {
      let gap = (schedule.due(number) - schedule.due(number - 1)).inSeconds
      #expect(gap > 0 && gap <= last + 1e-9 && gap > interval - 1e-9, "operation \(number)")
      last = gap
    }
    let first = schedule.due(inRamp).inSeconds
    #expect(first >= ramp - 1e-9 && first < ramp + interval + 1e-9, "the first after the ramp")
    for number in [inRamp + 1, inRamp + 1000] {
      let gap = (schedule.due(number) - schedule.due(number - 1)).inSeconds
      #expect(abs(gap - interval) < 1e-9 * max(1, schedule.due(number).inSeconds))
    }
  }

  @Test("After hours at a high rate an operation is still due to the microsecond")
  func precision() {
    let schedule = LoadSchedule(rate: 100_000, ramp: .seconds(60))
    let day = schedule.due(30 * 100_000 + 24 * 3600 * 100_000)
    #expect(abs((day - .seconds(24 * 3600 + 60)).inSeconds) < 1e-6)
  }
}
