import LatchkeyModel
import Storage

/// The transaction that runs.
struct MemoryIdentityTransaction: IdentityTransaction {
  let tables: MemoryIdentityTables

  var subjects: MemorySubjects { MemorySubjects(tables: tables) }
  var devices: MemoryDevices { MemoryDevices(tables: tables) }
  var sessions: MemorySessions { MemorySessions(tables: tables) }
  var identities: MemoryIdentities { MemoryIdentities(tables: tables) }
  var challenges: MemoryChallenges { MemoryChallenges(tables: tables) }
  var codes: MemoryCodes { MemoryCodes(tables: tables) }
  var unlocks: MemoryUnlocks { MemoryUnlocks(tables: tables) }
  var tickets: MemoryTickets { MemoryTickets(tables: tables) }
  var lineage: MemoryLineage { MemoryLineage(tables: tables) }
  var merges: MemoryMerges { MemoryMerges(tables: tables) }
  var sources: MemorySources { MemorySources(tables: tables) }
  var replays: MemoryReplays { MemoryReplays(tables: tables) }
  var transfers: MemoryTransfers { MemoryTransfers(tables: tables) }
  var grants: MemoryGrants { MemoryGrants(tables: tables) }
  var audit: MemoryAudit { MemoryAudit(tables: tables) }
}

struct MemorySubjects: SubjectRows {
  let tables: MemoryIdentityTables

  func find(_ id: SubjectID) -> Subject? { tables.subjects[id]?.subject }

  func lock(_ id: SubjectID) -> Subject? { find(id) }

  func insert(_ subject: Subject) throws(StorageError) {
    try tables.subjects.insert(
      subject.id, MemoryIdentityTables.SubjectRow(subject: subject, usedAt: subject.createdAt), "insert a subject")
  }

  func change(_ subject: Subject, usedAt now: Timestamp) {
    tables.subjects.change(subject.id) { row in
      // Who is kept out, and since when, is another's to change.
      var subject = subject
      subject.disabledAt = row.subject.disabledAt
      row = MemoryIdentityTables.SubjectRow(subject: subject, usedAt: now)
    }
  }

  func change(_ id: SubjectID, usedAt now: Timestamp) { tables.subjects.change(id) { $0.usedAt = now } }
}

struct MemoryDevices: DeviceRows {
  let tables: MemoryIdentityTables

  func find(_ keyThumbprint: String) -> StoredDevice? { tables.devices[keyThumbprint]?.stored }

  func lock(_ keyThumbprint: String) -> StoredDevice? { find(keyThumbprint) }

  func put(_ device: DeviceRegistration, counter: ProofCounter?, at now: Timestamp) {
    var row = tables.devices[device.keyThumbprint] ?? MemoryIdentityTables.DeviceRow(registration: device)
    row.registration = device
    row.stored.counter = counter ?? row.stored.counter
    tables.devices[device.keyThumbprint] = row
  }

  func change(_ keyThumbprint: String, guest: SubjectID?) {
    tables.devices.change(keyThumbprint) { $0.stored.guest = guest }
  }

  func change(_ keyThumbprint: String, clonedAt time: Timestamp) {
    tables.devices.change(keyThumbprint) { $0.stored.isCloned = true }
  }

  func change(_ keyThumbprint: String, lastAccount: SubjectID, _ hint: LastLoginHint) {
    tables.devices.change(keyThumbprint) { row in
      row.stored.lastAccount = lastAccount
      row.stored.lastLogin = hint
    }
  }

  func removeGuest(_ guest: SubjectID) {
    for (key, row) in tables.devices.rows where row.stored.guest == guest { change(key, guest: nil) }
  }

  func removeGuest(_ guest: SubjectID, from keyThumbprint: String) {
    tables.devices.change(keyThumbprint) { if $0.stored.guest == guest { $0.stored.guest = nil } }
  }

  func resetCounter(_ keyThumbprint: String) {
    tables.devices.change(keyThumbprint) { row in
      row.stored.counter = nil
      row.stored.isCloned = false
    }
  }

  func move(_ keyThumbprint: String, to other: String) {
    guard let known = find(keyThumbprint) else { return }
    tables.devices.change(other) { row in
      row.stored.guest = known.guest
      row.stored.lastAccount = known.lastAccount
      row.stored.lastLogin = known.lastLogin
    }
    tables.devices.change(keyThumbprint) { row in
      row.stored.guest = nil
      row.stored.lastAccount = nil
      row.stored.lastLogin = nil
    }
  }
}

struct MemoryLineage: LineageRows {
  let tables: MemoryIdentityTables

  func ancestors(of member: LineageMember) -> [LineageMember] {
    tables.lineage.rows.keys.filter { $0.descendant == member }.map(\.ancestor).sorted(by: byBytes)
  }

  func descendants(of member: LineageMember) -> [LineageMember] {
    tables.lineage.rows.keys.filter { $0.ancestor == member }.map(\.descendant).sorted(by: byBytes)
  }

  func insert(_ member: LineageMember, cameOf ancestor: LineageMember) {
    tables.lineage[MemoryIdentityTables.Descent(ancestor: ancestor, descendant: member)] = true
  }

  func insert(_ member: LineageMember, cameOfAncestorsOf source: LineageMember) {
    for ancestor in ancestors(of: source) { insert(member, cameOf: ancestor) }
  }

  func insert(descendantsOf earlier: LineageMember, cameOf member: LineageMember) {
    for descendant in descendants(of: earlier) { insert(descendant, cameOf: member) }
  }

  func remove(ancestorsOf member: LineageMember) { tables.lineage.remove { key, _ in key.descendant == member } }

  private func byBytes(_ left: LineageMember, _ right: LineageMember) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}

struct MemoryMerges: MergeRows {
  let tables: MemoryIdentityTables

  func find(_ id: MergeID) -> PendingMerge? { tables.merges[id] }

  func open(of guest: SubjectID) -> PendingMerge? { tables.merges.rows.values.first { $0.guest == guest } }

  func insert(_ merge: PendingMerge, dueAt: Timestamp, at now: Timestamp) throws(StorageError) {
    guard open(of: merge.guest) == nil else { throw StorageError(.constraint(.unique), operation: "insert a merge") }
    var merge = merge
    merge.createdAt = now
    try tables.merges.insert(merge.id, merge, "insert a merge")
  }

  func changeSessions(of merge: PendingMerge, at now: Timestamp) {
    tables.merges.change(merge.id) { row in
      row.targetSession = merge.targetSession
      row.guestSession = merge.guestSession
    }
  }
}

struct MemoryAudit: AuditRows {
  let tables: MemoryIdentityTables

  func lockLast() -> (sequence: Int64, link: [UInt8])? {
    let count = Int64(tables.events.rows.count)
    return tables.events[count].map { ($0.sequence, $0.link) }
  }

  func insert(_ event: AuditEvent) throws(StorageError) {
    try tables.events.insert(event.sequence, event, "insert an audit event")
  }
}
