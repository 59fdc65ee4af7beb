import LatchkeyModel
import Storage

/// QR sessions in memory, gone when the process ends: for tests and simulation.
package actor MemoryQRSessionStore: QRSessionStore {
  private var sessions: [QRSessionID: QRSession] = [:]
  /// In the order of their numbers.
  private var changes: [(number: Int, at: ContinuousClock.Instant, change: QRChange)] = []
  private var changeCount = 0
  private var redemptions: [QRSessionID: QRRedemption] = [:]
  /// The number of the last turn; by the clock, and so higher than those that were forgotten.
  private var lastTurn: Int64 = 0
  private var secret: [UInt8]?

  package init() {}

  package func insert(_ session: QRSession) throws(StorageError) {
    let isTaken = sessions.values.contains { other in
      other.id == session.id || other.keys.pollSecret == session.keys.pollSecret
        || other.keys.reference == session.keys.reference || other.keys.userCode == session.keys.userCode
    }
    if isTaken { throw StorageError(.constraint(.unique), operation: "insert a QR session") }
    sessions[session.id] = session
  }

  package func exchange(_ before: QRSession, for session: QRSession, at now: Timestamp) -> Bool {
    guard let stored = sessions[before.id], stored.version == before.version,
      stored.phase.state == before.phase.state, stored.phase.state.isFinal || stored.expires > now
    else { return false }
    sessions[before.id] = session
    changeCount += 1
    changes.append((changeCount, .now, QRChange(session)))
    return true
  }

  package func session(_ id: QRSessionID) -> QRSession? { sessions[id] }

  package func session(reference: Digest256) -> QRSession? { sessions.values.first { $0.keys.reference == reference } }

  package func session(userCode: Digest256) -> QRSession? { sessions.values.first { $0.keys.userCode == userCode } }

  package func session(pollSecret: Digest256) -> QRSession? {
    sessions.values.first { $0.keys.pollSecret == pollSecret }
  }

  package func sessions(expiringAfter time: Timestamp, following id: QRSessionID?, limit: Int) -> [QRSession] {
    let live = sessions.values.filter { $0.expires > time && (id.map(\.bytes) ?? []).precedes($0.id.bytes) }
    return Array(live.sorted { $0.id.bytes.precedes($1.id.bytes) }.prefix(limit))
  }

  package func removeSessions(redeemedBefore: Timestamp, othersBefore: Timestamp, limit: Int) -> Int {
    let over = sessions.values.filter {
      $0.expires < ($0.phase.state == .consumed ? redeemedBefore : othersBefore)
    }
    for session in over.prefix(limit) { sessions[session.id] = nil }
    return min(over.count, limit)
  }
}

extension MemoryQRSessionStore: SharedQRSessionStore {
  package func sharedSecret(proposing secret: [UInt8]) -> [UInt8] {
    let shared = self.secret ?? secret
    self.secret = shared
    return shared
  }

  package func changeMark() -> QRChangeMark { QRChangeMark(server: "memory", state: String(changeCount)) }

  package func changes(since mark: QRChangeMark, orOfLast duration: Duration, limit: Int) -> QRChanges {
    let now = changeMark()
    if mark.server == now.server, mark.place == nil || mark.place?.end != nil {
      let number = mark.place.map { Int($0.at) } ?? Int(mark.state) ?? 0
      let end = mark.place?.end ?? now.state
      let page = changes.filter { $0.number > number && $0.number <= Int(end) ?? 0 }.prefix(limit)
      let place =
        page.count < limit ? nil : page.last.map { QRChangeMark.Place(at: Int64($0.number), row: "", end: end) }
      let state = place == nil ? end : mark.state
      return QRChanges(page.map(\.change), mark: QRChangeMark(server: now.server, state: state, place: place))
    }
    let state = mark.server == now.server ? mark.state : now.state
    let number = mark.server == now.server ? mark.place?.at ?? 0 : 0
    let first = ContinuousClock.now - duration
    let page = changes.filter { $0.at >= first && $0.number > number }.prefix(limit)
    let place = page.count < limit ? nil : page.last.map { QRChangeMark.Place(at: Int64($0.number), row: "") }
    return QRChanges(page.map(\.change), mark: QRChangeMark(server: now.server, state: state, place: place))
  }

  package func forgetChanges(olderThan age: Duration, limit: Int) -> Int {
    let first = ContinuousClock.now - age
    let count = changes.prefix(limit).count { $0.at < first }
    changes.removeFirst(count)
    return count
  }

  package func takeExpired(by member: UInt16, limit: Int) -> [QRSessionID] { [] }

  package func redemption(of id: QRSessionID) -> QRRedemption? { redemptions[id] }

  package func takeRedemption(of id: QRSessionID, by holder: [UInt8], for turn: Duration) -> Int64? {
    let now = SystemClock().now()
    if let held = redemptions[id], held.answer != nil || (held.until > now && held.holder != holder) { return nil }
    redemptions[id] = QRRedemption(holder: holder, until: now + turn, answer: nil)
    lastTurn = max(lastTurn + 1, now.millisecondsSinceEpoch)
    return lastTurn
  }

  package func giveUpRedemption(of id: QRSessionID, by holder: [UInt8]) {
    guard let held = redemptions[id], held.holder == holder, held.answer == nil else { return }
    redemptions[id] = QRRedemption(holder: holder, until: SystemClock().now(), answer: nil)
  }

  package func redeem(
    _ before: QRSession, for session: QRSession, handingOver redemption: QRRedemption, at now: Timestamp
  ) -> QRRedemption.Outcome {
    guard let held = redemptions[before.id], held.holder == redemption.holder, held.answer == nil else {
      return .superseded
    }
    if session.version != before.version, !exchange(before, for: session, at: now) { return .changed }
    redemptions[before.id] = redemption
    return .done
  }

  package func forgetRedemptions(endedBefore time: Timestamp, limit: Int) -> Int {
    let ended = redemptions.filter { $0.value.until < time }.keys.prefix(limit)
    for id in ended { redemptions[id] = nil }
    return ended.count
  }
}

extension [UInt8] {
  fileprivate func precedes(_ other: [UInt8]) -> Bool { lexicographicallyPrecedes(other) }
}
