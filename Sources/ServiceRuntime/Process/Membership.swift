internal import Cryptography
package import LatchkeyModel
package import Logging
package import Storage
internal import Synchronization

/// This instance among the others of its service that have the same rows: the number that it leased, its sign of life each
/// second, who else lives, and whether its clock is right.
package final class Membership: Sendable {
  /// Another instance has this one's number: this one was silent for so long that it must have been dead.
  struct NumberLost: Error, CustomStringConvertible {
    let number: UInt16

    var description: String { "instance \(number) was silent for so long that its number is another's" }
  }

  private struct State {
    var isDraining = false
    /// Nil before it serves for the first time.
    var isServing: (@Sendable () -> Bool)?
    var live: [Member] = []
    /// When the last sign of life was given that was acknowledged.
    var life: (heard: ContinuousClock.Instant, server: String)
    /// By how much this clock is ahead of the rows'.
    var lead: Duration = .zero
  }

  private let rows: any MemberRows
  private let member: Member
  private let clock: any WallClock
  private let logger: Logger
  private let state: Mutex<State>
  private let counted = Atomic(1)

  private init(_ rows: any MemberRows, _ member: Member, clock: any WallClock, logger: Logger) {
    self.rows = rows
    self.member = member
    self.clock = clock
    self.logger = logger
    state = Mutex(State(life: (.now - Limits.memberSilence, "")))
  }

  /// Leases a number and gives the first sign of life.
  package static func join(
    _ rows: any MemberRows, address: String, clock: any WallClock, logger: Logger
  ) async throws -> Membership {
    let member = try await rows.join(boot: SecureRandom.bytes(16), address: address)
    logger.notice(
      "this instance has a number", metadata: ["instance": "\(member.number)", "address": "\(address)"])
    let membership = Membership(rows, member, clock: clock, logger: logger)
    try await membership.beat()
    return membership
  }

  /// Nobody else's while this instance lives, and for ten minutes after.
  package var number: UInt16 { member.number }

  /// The other instances that gave a sign of life within five seconds of this one's last, in the order of their numbers.
  package var others: [Member] { state.withLock { $0.live }.filter { $0.boot != member.boot } }

  /// How many instances live and serve, with this one; all that live, while this one does not serve. Costs little to ask.
  package var count: Int { counted.load(ordering: .relaxed) }

  /// When this instance last gave a sign of life that the rows took: it was in touch with whoever decides then.
  package var heard: ContinuousClock.Instant { life.heard }

  /// The same, and which server took it.
  package var life: (heard: ContinuousClock.Instant, server: String) { state.withLock { $0.life } }

  /// Why this instance must not serve; nil while it may.
  package var obstacle: String? { obstacle(at: .now) }

  func obstacle(at now: ContinuousClock.Instant) -> String? {
    let (heard, lead) = state.withLock { ($0.life.heard, $0.lead) }
    if now >= heard + Limits.memberSilence {
      return
        "the database took no sign of life for \(Limits.memberSilence.components.seconds) s: others take this instance for dead"
    }
    guard lead > Limits.clockError || lead < .zero - Limits.clockError else { return nil }
    let (seconds, attoseconds) = lead.components
    let tenths = abs(seconds * 10 + attoseconds / 100_000_000_000_000_000)
    return "the clock is \(tenths / 10).\(tenths % 10) s \(lead > .zero ? "ahead of" : "behind") the database's"
  }

  package var task: BackgroundTask { BackgroundTask("sign of life") { try await self.run() } }

  private func run() async throws {
    var warning = PatientWarning()
    while true {
      try await Task.sleep(for: Limits.memberBeat)
      do {
        try await beat()
        warning.succeeded()
      } catch let error as StorageError {
        // It was taken for dead, and what its release needs is there no more: its next start says so.
        if case .newerSchema = error.fault { throw error }
        if !Task.isCancelled, warning.failed() {
          logger.warning("the database takes no sign of life", metadata: ["cause": "\(error)"])
        }
      }
    }
  }

  /// Gives a sign of life.
  func beat() async throws {
    // Before it is given: others count from no earlier.
    let start = ContinuousClock.now
    let (isDraining, isServing, before) = state.withLock { ($0.isDraining, $0.isServing, $0.lead) }
    let isAway = isDraining || isServing?() != true
    let sign = Member(number: member.number, boot: member.boot, address: member.address, isDraining: isAway)
    guard let beat = try await rows.beat(sign, clock: clock) else { throw NumberLost(number: member.number) }
    state.withLock { state in
      state.live = beat.live
      state.life = (start, beat.server)
      state.lead = beat.lead
    }
    // Who does not serve itself, and may be asked all the same, leaves nobody out: else all would grant everything while none
    // of them may serve.
    let others = beat.live.count { $0.boot != member.boot && (isAway || !$0.isDraining) }
    counted.store(others + 1, ordering: .relaxed)
    if let obstacle = obstacle(at: start), before == .zero {
      logger.error("this instance cannot serve", metadata: ["reason": "\(obstacle)"])
    }
  }

  /// From now on the others take it that this instance serves, as long as `isServing` says so, and leave it its part of what
  /// they share.
  package func serves(while isServing: @escaping @Sendable () -> Bool) {
    state.withLock { $0.isServing = isServing }
  }

  /// Tells the others that this instance is about to end.
  package func drain() {
    state.withLock { $0.isDraining = true }
    Task { try? await beat() }
  }

  /// The last thing that it does.
  package func leave() async {
    // Which knows this instance.
    state.withLock { $0.isServing = nil }
    do throws(StorageError) {
      try await rows.leave(member)
    } catch {
      // The others find out by themselves, some seconds later.
      logger.info("the others were not told that this instance ends", metadata: ["cause": "\(error)"])
    }
  }
}
