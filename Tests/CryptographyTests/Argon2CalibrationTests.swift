import Testing

@testable import Cryptography

@Suite("Calibrating the cost of passwords")
struct Argon2CalibrationTests {
  /// A machine on which a pass over one MiB takes so long.
  private func find(
    _ target: Duration, mostMiB: UInt32, perMiB: Duration = .milliseconds(1)
  ) async -> Argon2Calibration.Finding {
    await Argon2Calibration(target: target, mostMemoryKiB: mostMiB * 1024).find { parameters in
      perMiB * Int(parameters.memoryKiB) / 1024 * Int(parameters.passes)
    }
  }

  @Test("the most memory comes first, then as many passes as the time allows")
  func memoryFirst() async {
    #expect(await find(.milliseconds(200), mostMiB: 64).parameters == .init(memoryKiB: 65_536, passes: 3, lanes: 1))
    #expect(await find(.milliseconds(100), mostMiB: 128).parameters == .init(memoryKiB: 65_536, passes: 1, lanes: 1))
    // Half of what is allowed would be too slow with two passes, and one is too few for less than 46 MiB.
    #expect(await find(.milliseconds(50), mostMiB: 64).parameters == .init(memoryKiB: 47_104, passes: 1, lanes: 1))
    #expect(await find(.milliseconds(40), mostMiB: 64).parameters == .init(memoryKiB: 19_456, passes: 2, lanes: 1))
  }

  @Test("no parameters are below what OWASP asks for, however slow the machine is; what they take is said")
  func neverBelow() async {
    let least: [(UInt32, UInt32)] = [(47_104, 1), (19_456, 2), (12_288, 3), (9_216, 4)]
    for most in [UInt32(9), 12, 19, 46, 64, 256] {
      for target in [1, 36, 60, 250, 1_000_000] {
        let finding = await find(.milliseconds(target), mostMiB: most)
        let found = finding.parameters
        #expect(least.contains { found.memoryKiB >= $0.0 && found.passes >= $0.1 }, "\(most) MiB, \(target) ms")
        #expect(found.areUsable && found.memoryKiB <= most * 1024)
        #expect(finding.time <= .milliseconds(target) || target < 38)
      }
    }
    let slow = await find(.milliseconds(10), mostMiB: 64, perMiB: .milliseconds(10))
    #expect(slow.parameters == .init(memoryKiB: 12_288, passes: 3, lanes: 1))
    #expect(slow.time == .milliseconds(360))
  }

  @Test("a machine without measurable cost gets the most of everything")
  func free() async {
    let finding = await find(.milliseconds(1), mostMiB: 256, perMiB: .zero)
    #expect(finding.parameters == .init(memoryKiB: 262_144, passes: 16, lanes: 1))
  }
}
