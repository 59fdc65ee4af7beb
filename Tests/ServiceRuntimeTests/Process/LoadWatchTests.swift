import Testing

@testable import ServiceRuntime

@Suite("When the load has fallen")
struct LoadWatchTests {
  @Test(
    "It is said at the second step in a row below half of the most before, or with little to do, and now and then after",
    arguments: [
      // Milliseconds of processor time in each step, and whether that was said then.
      ([5000, 4900, 4800, 4600], [false, false, false, false]),
      ([5000, 10, 10, 10], [false, false, true, false]),
      ([5000, 10, 4000, 10, 10, 10], [false, false, false, false, true, false]),
      ([5000, 2000, 2000, 2000, 900, 900], [false, false, true, false, false, true]),
      ([0, 0, 900, 0, 0, 0, 0, 0, 0], [false, true, false, false, false, false, false, true, false]),
    ] as [([Int], [Bool])]
  )
  func fallen(steps: [Int], expected: [Bool]) {
    var used = Duration.seconds(3)
    var watch = LoadWatch(used)
    let said = steps.map { step in
      used += .milliseconds(step)
      return watch.hasFallen(used)
    }
    #expect(said == expected)
  }
}
