import Callers
import LatchkeyModel
import Storage
import StorageMemory
import Synchronization

@testable import QRSessionService

/// Sessions in memory that several instances have: counts what is looked up by device code, and can be cut off.
final class CountingStore: Sendable {
  let memory = MemoryQRSessionStore()
  let lookUps = Mutex(0)
  let isCut = Mutex(false)
  let beforeAnswer = Mutex<(@Sendable () async -> Void)?>(nil)
  /// After what changes were asked for.
  let marks = Mutex<[QRChangeMark]>([])
  /// Another server has the rows when they are next asked for.
  let isTakenOver = Mutex(false)
  /// Turns that were asked for.
  let turns = Mutex<[Turn]>([])
  /// How many of the next turns take longer to be given than leaves identity its time.
  let slowTurns = Mutex(0)
  /// How many of the next turns are given, and nobody says so.
  let unansweredTurns = Mutex(0)

  struct Turn {
    let length: Duration
    let hasDeadline: Bool
  }
}

extension CountingStore: SharedQRSessionStore {
  private func reach() throws(StorageError) {
    if isCut.withLock({ $0 }) { throw StorageError(.unavailable, operation: "test") }
  }

  func insert(_ session: QRSession) async throws(StorageError) {
    try reach()
    try await memory.insert(session)
  }

  func exchange(_ before: QRSession, for session: QRSession, at now: Timestamp) async throws(StorageError) -> Bool {
    try reach()
    return await memory.exchange(before, for: session, at: now)
  }

  func session(_ id: QRSessionID) async throws(StorageError) -> QRSession? {
    try reach()
    return await memory.session(id)
  }

  func session(reference: Digest256) async throws(StorageError) -> QRSession? {
    try reach()
    return await memory.session(reference: reference)
  }

  func session(userCode: Digest256) async throws(StorageError) -> QRSession? {
    try reach()
    return await memory.session(userCode: userCode)
  }

  func session(pollSecret: Digest256) async throws(StorageError) -> QRSession? {
    try reach()
    lookUps.withLock { $0 += 1 }
    let found = await memory.session(pollSecret: pollSecret)
    await beforeAnswer.withLock { $0 }?()
    return found
  }

  func sessions(
    expiringAfter time: Timestamp, following id: QRSessionID?, limit: Int
  ) async throws(StorageError) -> [QRSession] {
    try reach()
    return await memory.sessions(expiringAfter: time, following: id, limit: limit)
  }

  func removeSessions(
    redeemedBefore: Timestamp, othersBefore: Timestamp, limit: Int
  ) async throws(StorageError) -> Int {
    try reach()
    return await memory.removeSessions(redeemedBefore: redeemedBefore, othersBefore: othersBefore, limit: limit)
  }

  func sharedSecret(proposing secret: [UInt8]) async throws(StorageError) -> [UInt8] {
    await memory.sharedSecret(proposing: secret)
  }

  func changeMark() async throws(StorageError) -> QRChangeMark {
    try reach()
    return await memory.changeMark()
  }

  func changes(
    since mark: QRChangeMark, orOfLast duration: Duration, limit: Int
  ) async throws(StorageError) -> QRChanges {
    marks.withLock { $0.append(mark) }
    try reach()
    let isTakenOver = isTakenOver.withLock { taken in
      defer { taken = false }
      return taken
    }
    let known = isTakenOver ? QRChangeMark(server: "before", state: mark.state) : mark
    // In pages of one: more than one look for whatever is read again.
    return await memory.changes(since: known, orOfLast: duration, limit: 1)
  }

  func forgetChanges(olderThan age: Duration, limit: Int) async throws(StorageError) -> Int {
    try reach()
    return await memory.forgetChanges(olderThan: age, limit: limit)
  }

  func takeExpired(by member: UInt16, limit: Int) async throws(StorageError) -> [QRSessionID] {
    try reach()
    return await memory.takeExpired(by: member, limit: limit)
  }

  func redemption(of id: QRSessionID) async throws(StorageError) -> QRRedemption? {
    try reach()
    return await memory.redemption(of: id)
  }

  func giveUpRedemption(of id: QRSessionID, by holder: [UInt8]) async throws(StorageError) {
    try reach()
    turns.withLock { $0.append(Turn(length: .zero, hasDeadline: CallDeadline.current != nil)) }
    await memory.giveUpRedemption(of: id, by: holder)
  }

  func takeRedemption(
    of id: QRSessionID, by holder: [UInt8], for turn: Duration
  ) async throws(StorageError) -> Int64? {
    try reach()
    turns.withLock { $0.append(Turn(length: turn, hasDeadline: CallDeadline.current != nil)) }
    let number = await memory.takeRedemption(of: id, by: holder, for: turn)
    let isSlow = slowTurns.withLock { slow in
      slow -= 1
      return slow >= 0
    }
    let isUnanswered = unansweredTurns.withLock { unanswered in
      unanswered -= 1
      return unanswered >= 0
    }
    if isUnanswered { throw StorageError(.outcomeUnknown, operation: "test") }
    if isSlow { try? await Task.sleep(for: Limits.redemptionTurn - Limits.grantTimeout) }
    return number
  }

  func redeem(
    _ before: QRSession, for session: QRSession, handingOver redemption: QRRedemption, at now: Timestamp
  ) async throws(StorageError) -> QRRedemption.Outcome {
    try reach()
    return await memory.redeem(before, for: session, handingOver: redemption, at: now)
  }

  func forgetRedemptions(endedBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try reach()
    return await memory.forgetRedemptions(endedBefore: time, limit: limit)
  }
}
