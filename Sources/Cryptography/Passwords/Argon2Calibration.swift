/// Finds the cost of a password's hash for the machine that it runs on.
///
/// Memory first, as much as there may be of it, then passes as the time allows (RFC 9106 section 4): memory is what a
/// guesser's hardware has least of. Never below what OWASP's Password Storage Cheat Sheet asks for at least.
package struct Argon2Calibration: Sendable {
  /// The memory in KiB and the fewest passes with it, which are equally hard to guess against.
  private static let least: [(memoryKiB: UInt32, passes: UInt32)] = [
    (46 * 1024, 1), (19 * 1024, 2), (12 * 1024, 3), (9 * 1024, 4),
  ]

  /// The memory, in KiB, that one hash may take. At least that of the cheapest cost, at most what a stored hash may.
  package static let memoryBounds: ClosedRange<UInt32> = 9 * 1024...Limits.argon2MemoryKiB

  /// How long one hash may take.
  package var target: Duration
  package var mostMemoryKiB: UInt32

  package struct Finding: Sendable, Equatable {
    package var parameters: Argon2Parameters
    package var time: Duration
  }

  package init(target: Duration, mostMemoryKiB: UInt32) {
    precondition(Self.memoryBounds.contains(mostMemoryKiB), "the caller checks the memory")
    self.target = target
    self.mostMemoryKiB = mostMemoryKiB
  }

  /// The costliest parameters within the target; where even the cheapest acceptable ones take longer, those.
  ///
  /// - Parameter measure: how long one hash takes.
  package func find<Failure: Error>(
    _ measure: (Argon2Parameters) async throws(Failure) -> Duration
  ) async throws(Failure) -> Finding {
    var cheapest: Finding?
    for memory in memories {
      let fewest = Self.fewestPasses(memory)
      let first = try await time(memory, fewest, measure)
      if cheapest.map({ first.time < $0.time }) ?? true { cheapest = first }
      guard first.time <= target else { continue }
      // As many as fit if each takes its share; then fewer until they do.
      let share = max(first.time / Int(fewest), .nanoseconds(1))
      var passes = UInt32(clamping: Int64(min(target / share, Double(Limits.argon2Passes))))
      while passes > fewest {
        let finding = try await time(memory, passes, measure)
        if finding.time <= target { return finding }
        passes -= 1
      }
      return first
    }
    guard let cheapest else { preconditionFailure("there is at least the cheapest memory") }
    return cheapest
  }

  /// What is tried, the most first: what is allowed, halves of it, and the least for each number of passes.
  private var memories: [UInt32] {
    var tried = Set(Self.least.map(\.memoryKiB).filter { $0 <= mostMemoryKiB })
    var memory = mostMemoryKiB
    while memory >= Self.memoryBounds.lowerBound {
      tried.insert(memory)
      memory /= 2
    }
    return tried.sorted(by: >)
  }

  private static func fewestPasses(_ memoryKiB: UInt32) -> UInt32 {
    for cost in least where memoryKiB >= cost.memoryKiB { return cost.passes }
    preconditionFailure("no memory below the least is tried")
  }

  private func time<Failure: Error>(
    _ memoryKiB: UInt32, _ passes: UInt32, _ measure: (Argon2Parameters) async throws(Failure) -> Duration
  ) async throws(Failure) -> Finding {
    let parameters = Argon2Parameters(memoryKiB: memoryKiB, passes: passes, lanes: 1)
    return Finding(parameters: parameters, time: try await measure(parameters))
  }
}
