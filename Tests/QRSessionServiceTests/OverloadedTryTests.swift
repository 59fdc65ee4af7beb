import Callers
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage
import Synchronization
import Testing

@testable import QRSessionService

/// Too much waits for the storage while codes are typed and scanned.
@Suite struct OverloadedTryTests {
  private let now = Timestamp(secondsSinceEpoch: 1_800_000_000)
  private let subject = SubjectID(from: RandomSource { [UInt8](repeating: 1, count: $0) })

  private func type(_ code: String, as account: String = "ada", in harness: Harness) async -> RPCError? {
    await refusal {
      _ = try await harness.api.scanSession(
        QRV1.ScanSessionRequest(code: .userCode(code)), context: .phone(account))
    }
  }

  @Test("S26: a right code that could not be claimed in an overload spends no try, typed or scanned")
  func rightCode() async throws {
    let overload = Overload()
    let harness = try Harness(over: { OverloadedStore($0, overload) })
    let issued = try await harness.issue()
    for _ in 0..<6 { #expect(await type(issued.userCode, in: harness)?.details.reason == "OVERLOADED") }
    for _ in 0..<31 {
      #expect(await refusal { _ = try await harness.scan(issued) }?.details.reason == "OVERLOADED")
    }
    overload.isOver.withLock { $0 = true }
    let scanned = try await harness.api.scanSession(
      QRV1.ScanSessionRequest(code: .userCode(issued.userCode)), context: .phone())
    #expect(!scanned.needsCheckCode)
  }

  @Test("S15, S26: a wrong code is a wrong try in an overload as well, and the account waits after five")
  func wrongCode() async throws {
    let harness = try Harness(over: { OverloadedStore($0, Overload()) })
    let issued = try await harness.issue()
    for _ in 0..<5 {
      #expect(await type("BCDF-GHJK", in: harness) == .noSuchCode)
      // Right ones in between give none back.
      #expect(await type(issued.userCode, as: "bob", in: harness)?.details.reason == "OVERLOADED")
    }
    #expect(await type(issued.userCode, in: harness)?.details.reason == "RATE_LIMITED")
  }

  @Test(
    "S26, C8: a try that was not taken everywhere leaves what it had taken", arguments: ["source", "unaided", "all"])
  func halfTaken(_ failing: String) async throws {
    let counts = FailingCounts()
    if failing == "all" { counts.state.withLock { $0.taken["unaided"] = 1000 } }
    let before = counts.state.withLock { $0.taken }
    let codes = SharedTypedCodes(counts: counts, tries: Rate(5, per: .seconds(600)), lifetime: .seconds(120))
    counts.state.withLock { $0.failing = failing }
    for _ in 0..<6 {
      let refused = await #expect(throws: RPCError.self) { try await codes.spend(by: subject, "4:a", at: now) }
      #expect(refused?.details.reason == "OVERLOADED")
    }
    #expect(counts.state.withLock { $0.taken.filter { $0.value > 0 } } == before)
    counts.state.withLock { $0.failing = nil }
    for _ in 0..<5 { _ = try await codes.spend(by: subject, "4:a", at: now) }
    let refused = await #expect(throws: RPCError.self) { try await codes.spend(by: subject, "4:a", at: now) }
    #expect(refused?.details.reason == "RATE_LIMITED")
    #expect(counts.state.withLock { $0.refusable } == 0)
  }

  @Test("S26, C8: a right code gives its try back however much waits, and though its call is late")
  func givenBackLate() async throws {
    let counts = FailingCounts()
    let codes = SharedTypedCodes(counts: counts, tries: Rate(5, per: .seconds(600)), lifetime: .seconds(120))
    let terms = try await codes.spend(by: subject, "4:a", at: now)
    #expect(counts.state.withLock { $0.taken.values.reduce(0, +) } == 3)
    await CallDeadline.$current.withValue(.now) {
      await codes.refund(terms, by: subject, "4:a", at: now)
    }
    #expect(counts.state.withLock { $0.taken.values.reduce(0, +) } == 0)
    #expect(counts.state.withLock { $0.refusable } == 0)
  }
}

private final class Overload: Sendable {
  let isOver = Mutex(false)
}

/// Changes no session during the overload.
private final class OverloadedStore: QRSessionStore {
  private let store: any QRSessionStore
  private let overload: Overload

  init(_ store: any QRSessionStore, _ overload: Overload) {
    self.store = store
    self.overload = overload
  }

  func exchange(
    _ before: QRSession, for session: QRSession, at now: Timestamp
  ) async throws(StorageError) -> Bool {
    guard overload.isOver.withLock({ $0 }) else { throw StorageError(.overloaded, operation: "exchange") }
    return try await store.exchange(before, for: session, at: now)
  }

  func insert(_ session: QRSession) async throws(StorageError) { try await store.insert(session) }

  func session(_ id: QRSessionID) async throws(StorageError) -> QRSession? { try await store.session(id) }

  func session(reference: Digest256) async throws(StorageError) -> QRSession? {
    try await store.session(reference: reference)
  }

  func session(userCode: Digest256) async throws(StorageError) -> QRSession? {
    try await store.session(userCode: userCode)
  }

  func session(pollSecret: Digest256) async throws(StorageError) -> QRSession? {
    try await store.session(pollSecret: pollSecret)
  }

  func sessions(
    expiringAfter time: Timestamp, following id: QRSessionID?, limit: Int
  ) async throws(StorageError) -> [QRSession] {
    try await store.sessions(expiringAfter: time, following: id, limit: limit)
  }

  func removeSessions(
    redeemedBefore: Timestamp, othersBefore: Timestamp, limit: Int
  ) async throws(StorageError) -> Int {
    try await store.removeSessions(redeemedBefore: redeemedBefore, othersBefore: othersBefore, limit: limit)
  }
}

/// Counts in memory, of which some can be made to fail.
private final class FailingCounts: GuessCounts {
  struct State {
    var taken: [String: Int] = [:]
    /// What the names of those that fail begin with.
    var failing: String?
    /// Refunds that a full queue would have refused, or a late call cut off.
    var refusable = 0
  }

  let state = Mutex(State())

  func spend(
    _ name: String, of count: Int, per window: Duration, at now: Timestamp
  ) async throws(StorageError) -> Duration? {
    let isFailing = state.withLock { state in state.failing.map { name.hasPrefix($0) } ?? false }
    if isFailing { throw StorageError(.overloaded, operation: "spend") }
    return state.withLock { state in
      guard state.taken[name, default: 0] < count else { return window }
      state.taken[name, default: 0] += 1
      return nil
    }
  }

  func refund(
    _ name: String, of count: Int, per window: Duration, at now: Timestamp
  ) async throws(StorageError) {
    let isOwed = CallPlace.current?.isOwed == true && CallDeadline.current == nil
    state.withLock { state in
      state.taken[name, default: 0] -= 1
      if !isOwed { state.refusable += 1 }
    }
  }
}
