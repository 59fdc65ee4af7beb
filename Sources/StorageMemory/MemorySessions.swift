import LatchkeyModel
import Storage

struct MemorySessions: SessionRows {
  let tables: MemoryIdentityTables

  func find(_ id: SessionID) -> Session? { tables.sessions[id] }

  func lock(_ id: SessionID) -> Session? { find(id) }

  func live(of subject: SubjectID, at now: Timestamp, limit: Int) -> [Session] {
    let live = tables.sessions.rows.values.filter { $0.subject == subject && $0.isLive(at: now) }
    return Array(live.sorted { ($0.beganAt, $0.id) > ($1.beganAt, $1.id) }.prefix(limit))
  }

  func wasUsed(_ account: SubjectID, onDevice keyThumbprint: String) -> Bool {
    tables.sessions.rows.values.contains {
      $0.subject == account && $0.device.keyThumbprint == keyThumbprint && !$0.isGuest
    }
  }

  func newest(of subject: SubjectID, onDevice keyThumbprint: String) -> Session? {
    tables.sessions.rows.values.filter { $0.subject == subject && $0.device.keyThumbprint == keyThumbprint }
      .max { ($0.beganAt, $0.id) < ($1.beganAt, $1.id) }
  }

  func insert(_ session: Session) throws(StorageError) {
    try tables.sessions.insert(session.id, session, "insert a session")
  }

  func changeFamily(of session: Session) { tables.sessions.change(session.id) { $0.family = session.family } }

  func change(_ session: Session) {
    tables.sessions.change(session.id) { row in
      row.family = session.family
      row.authenticatedAt = session.authenticatedAt
      row.confirmedAt = session.confirmedAt
    }
  }

  func end(_ id: SessionID, because why: Session.End, at now: Timestamp) -> EndedSession? {
    guard var session = tables.sessions[id], session.ended == nil else { return nil }
    session.ended = Session.Ending(at: now, why: why)
    tables.sessions[id] = session
    return EndedSession(id: id, subject: session.subject, why: why, at: now)
  }

  func end(
    of subject: SubjectID, except kept: SessionID?, because why: Session.End, at now: Timestamp
  ) -> [EndedSession] {
    end(because: why, at: now) { $0.subject == subject && $0.id != kept }
  }

  func end(
    of subject: SubjectID, onDevice keyThumbprint: String, because why: Session.End, at now: Timestamp
  ) -> [EndedSession] {
    end(because: why, at: now) { $0.subject == subject && $0.device.keyThumbprint == keyThumbprint }
  }

  private func end(
    because why: Session.End, at now: Timestamp, where matches: (Session) -> Bool
  ) -> [EndedSession] {
    let ids = tables.sessions.rows.values.filter { $0.ended == nil && matches($0) }.map(\.id).sorted()
    return ids.compactMap { end($0, because: why, at: now) }
  }

  func changeDevice(of subject: SubjectID, _ keyThumbprint: String, to other: String) -> Int {
    let sessions = tables.sessions.rows.values.filter {
      $0.subject == subject && $0.device.keyThumbprint == keyThumbprint && $0.ended == nil
    }
    for session in sessions { tables.sessions[session.id] = session.moved(from: keyThumbprint, to: other) }
    return sessions.count
  }

  func device(of subject: SubjectID, leftAt time: Timestamp, because why: Session.End) -> String? {
    let ended = Session.Ending(at: time, why: why)
    return tables.sessions.rows.values.first {
      $0.subject == subject && $0.ended == ended && $0.device.keyThumbprint != nil
    }?.device.keyThumbprint
  }
}

extension Session {
  /// The same session under another key of its device.
  fileprivate func moved(from keyThumbprint: String, to other: String) -> Session {
    var device = device
    device.keyThumbprint = other
    return Session(
      id: id, subject: subject, isGuest: isGuest, client: client, scope: scope, method: method, device: device,
      boundKeyThumbprint: boundKeyThumbprint == keyThumbprint ? other : boundKeyThumbprint, refreshSeed: refreshSeed,
      beganAt: beganAt, authenticatedAt: authenticatedAt, family: family, ended: ended, confirmedAt: confirmedAt)
  }
}
