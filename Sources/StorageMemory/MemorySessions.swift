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

  func lastRotation(of subject: SubjectID) -> Timestamp? {
    tables.sessions.rows.values.filter { $0.subject == subject && $0.ended == nil }.map(\.family.rotatedAt).max()
  }

  func insert(_ session: Session) throws(StorageError) {
    try tables.sessions.insert(session.id, session, "insert a session")
  }

  func changeFamily(of session: Session) { tables.sessions.change(session.id) { $0.family = session.family } }

  func change(_ session: Session) {
    tables.sessions.change(session.id) { row in
      row.family = session.family
      row.authenticatedAt = session.authenticatedAt
      row.provenBy = session.provenBy
      row.confirmedAt = session.confirmedAt
    }
  }

  func change(
    of subject: SubjectID, onDevice keyThumbprint: String, label: DisplayText, at now: Timestamp
  ) -> Int {
    let own = tables.sessions.rows.values.filter {
      $0.subject == subject && $0.device.keyThumbprint == keyThumbprint && $0.ended == nil
        && $0.family.idleExpiry > now
    }
    for session in own {
      var device = session.device
      device.label = label
      tables.sessions[session.id] = session.on(device, boundTo: session.boundKeyThumbprint)
    }
    return own.count
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

  func end(
    begunUntil time: Timestamp, limit: Int, because why: Session.End, at now: Timestamp
  ) -> [EndedSession] {
    let ids = tables.sessions.rows.values.filter {
      $0.ended == nil && $0.family.idleExpiry > now && $0.beganAt <= time
    }.map(\.id).sorted()
    return ids.prefix(limit).compactMap { end($0, because: why, at: now) }
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
    for session in sessions {
      var device = session.device
      device.keyThumbprint = other
      let bound = session.boundKeyThumbprint
      tables.sessions[session.id] = session.on(device, boundTo: bound == keyThumbprint ? other : bound)
    }
    return sessions.count
  }

  func device(of subject: SubjectID, leftAt time: Timestamp, because why: Session.End) -> String? {
    let ended = Session.Ending(at: time, why: why)
    return tables.sessions.rows.values.first {
      $0.subject == subject && $0.ended == ended && $0.device.keyThumbprint != nil
    }?.device.keyThumbprint
  }

  func ended(since time: Timestamp) -> [EndedSession] {
    tables.sessions.rows.values.compactMap { session in
      guard let ended = session.ended, ended.at >= time else { return nil }
      return EndedSession(id: session.id, subject: session.subject, why: ended.why, at: ended.at)
    }
  }

  func remove(overBefore time: Timestamp, limit: Int) -> Int {
    let sessions = tables.sessions.rows.values
    let ended = sessions.filter { session in session.ended.map { $0.at < time } ?? false }.sorted {
      ($0.ended?.at ?? time) < ($1.ended?.at ?? time)
    }
    let expired = sessions.filter { $0.ended == nil && $0.family.idleExpiry < time }.sorted {
      $0.family.idleExpiry < $1.family.idleExpiry
    }
    var count = 0
    for id in (ended.prefix(limit) + expired.prefix(limit)).map(\.id) {
      count += tables.grants.remove { $1.session == id }
      count += tables.lineage.remove { key, _ in key.descendant == .session(id) }
      tables.sessions[id] = nil
      count += 1
    }
    return count
  }
}

extension Session {
  /// The same session with another description of its device.
  fileprivate func on(_ device: Device, boundTo keyThumbprint: String?) -> Session {
    Session(
      id: id, subject: subject, isGuest: isGuest, client: client, scope: scope, method: method, device: device,
      boundKeyThumbprint: keyThumbprint, refreshSeed: refreshSeed, beganAt: beganAt, authenticatedAt: authenticatedAt,
      provenBy: provenBy, family: family, ended: ended, confirmedAt: confirmedAt)
  }
}
