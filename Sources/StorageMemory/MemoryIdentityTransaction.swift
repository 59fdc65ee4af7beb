import LatchkeyModel
import Storage

/// The transaction that runs.
struct MemoryIdentityTransaction: IdentityTransaction {
  let tables: MemoryIdentityTables

  var isShared: Bool { false }

  var subjects: MemorySubjects { MemorySubjects(tables: tables) }
  var devices: MemoryDevices { MemoryDevices(tables: tables) }
  var sessions: MemorySessions { MemorySessions(tables: tables) }
  var identities: MemoryIdentities { MemoryIdentities(tables: tables) }
  var challenges: MemoryChallenges { MemoryChallenges(tables: tables) }
  var codes: MemoryCodes { MemoryCodes(tables: tables) }
  var attempts: MemoryAttempts { MemoryAttempts(tables: tables) }
  var unlocks: MemoryUnlocks { MemoryUnlocks(tables: tables) }
  var tickets: MemoryTickets { MemoryTickets(tables: tables) }
  var lineage: MemoryLineage { MemoryLineage(tables: tables) }
  var merges: MemoryMerges { MemoryMerges(tables: tables) }
  var mergedGuests: MemoryMergedGuests { MemoryMergedGuests(tables: tables) }
  var sources: MemorySources { MemorySources(tables: tables) }
  var replays: MemoryReplays { MemoryReplays(tables: tables) }
  var transfers: MemoryTransfers { MemoryTransfers(tables: tables) }
  var grants: MemoryGrants { MemoryGrants(tables: tables) }
  var guides: MemoryGuides { MemoryGuides(tables: tables) }
  var purges: MemoryPurges { MemoryPurges(tables: tables) }
  var notices: MemoryNotices { MemoryNotices(tables: tables) }
  var upkeep: MemoryUpkeep { MemoryUpkeep(tables: tables) }
  var audit: MemoryAudit { MemoryAudit(tables: tables) }
}

struct MemorySubjects: SubjectRows {
  let tables: MemoryIdentityTables

  func find(_ id: SubjectID) -> Subject? { tables.subjects[id]?.subject }

  func lock(_ id: SubjectID) -> Subject? { find(id) }

  func standing(of id: SubjectID) -> SubjectStanding? {
    tables.subjects[id].map {
      SubjectStanding(subject: $0.subject, lastSeenAt: $0.usedAt, exportedAt: $0.exportedAt)
    }
  }

  func countGuests() -> Int { tables.subjects.rows.values.filter(\.subject.isGuest).count }

  func unusedGuests(before time: Timestamp, after last: UnusedGuest?, limit: Int) -> [UnusedGuest] {
    let unused = tables.subjects.rows.values.filter { row in
      row.subject.isGuest && row.usedAt < time
        && (last.map { ($0.lastSeenAt, $0.id) < (row.usedAt, row.subject.id) } ?? true)
    }
    return unused.sorted { ($0.usedAt, $0.subject.id) < ($1.usedAt, $1.subject.id) }.prefix(limit).map {
      UnusedGuest(id: $0.subject.id, lastSeenAt: $0.usedAt, exportedVersion: $0.exportedVersion)
    }
  }

  func change(_ id: SubjectID, disabledAt time: Timestamp?) {
    tables.subjects.change(id) { $0.subject.disabledAt = time }
  }

  func change(_ id: SubjectID, exportedAt time: Timestamp, recordsVersion: Int64) {
    tables.subjects.change(id) { row in
      row.exportedAt = time
      row.exportedVersion = recordsVersion
    }
  }

  func change(_ id: SubjectID, deletedAt time: Timestamp) {
    tables.subjects.change(id) { row in
      row.subject = Subject(
        id: id, kind: .deleted, createdAt: row.subject.createdAt, disabledAt: row.subject.disabledAt)
    }
  }

  func insert(_ subject: Subject) throws(StorageError) {
    try tables.subjects.insert(
      subject.id, MemoryIdentityTables.SubjectRow(subject: subject, usedAt: subject.createdAt), "insert a subject")
  }

  func change(_ subject: Subject, usedAt now: Timestamp) {
    tables.subjects.change(subject.id) { row in
      // Who is kept out, and since when, is another's to change.
      var subject = subject
      subject.disabledAt = row.subject.disabledAt
      row.subject = subject
      row.usedAt = now
    }
  }

  func change(_ id: SubjectID, usedAt now: Timestamp) { tables.subjects.change(id) { $0.usedAt = now } }
}

struct MemoryDevices: DeviceRows {
  let tables: MemoryIdentityTables

  func find(_ keyThumbprint: String) -> StoredDevice? { tables.devices[keyThumbprint]?.stored }

  func lock(_ keyThumbprint: String) -> StoredDevice? { find(keyThumbprint) }

  func put(_ device: DeviceRegistration, counter: ProofCounter?, newGuest guest: SubjectID?, at now: Timestamp) {
    var row =
      tables.devices[device.keyThumbprint]
      ?? MemoryIdentityTables.DeviceRow(registration: device, createdAt: now, lastSeenAt: now)
    row.registration = device.completed(by: row.registration)
    row.label = device.label ?? row.label
    row.stored.counter = counter ?? row.stored.counter
    row.stored.guest = guest ?? row.stored.guest
    row.lastSeenAt = now
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
      row.lastSeenAt = hint.at
    }
  }

  func label(of keyThumbprint: String) -> DisplayText? { tables.devices[keyThumbprint]?.label }

  func change(_ keyThumbprint: String, label: DisplayText) {
    tables.devices.change(keyThumbprint) { $0.label = label }
  }

  func all(usedBy subject: SubjectID, at now: Timestamp) -> [KnownDevice] {
    let sessions = tables.sessions.rows.values.filter {
      $0.subject == subject && $0.ended == nil && $0.family.idleExpiry > now
    }
    let unlocks = tables.unlocks.rows.values.map(\.unlock).filter { $0.account == subject }
    let keys = Set(sessions.compactMap(\.device.keyThumbprint) + unlocks.map(\.deviceKey))
    let known = keys.compactMap { key -> KnownDevice? in
      let own = sessions.filter { $0.device.keyThumbprint == key }
      let enrolled = unlocks.filter { $0.deviceKey == key }.map(\.enrolledAt)
      guard let since = (own.map(\.beganAt) + enrolled).min(),
        let until = (own.map(\.family.rotatedAt) + enrolled).max()
      else { return nil }
      let row = tables.devices[key]
      return KnownDevice(
        keyThumbprint: key, label: row?.label?.description ?? own.compactMap(\.device.label?.description).max(),
        platform: row?.registration.platform?.description ?? own.compactMap(\.device.platform?.description).max(),
        osVersion: row?.registration.osVersion?.description, appVersion: row?.registration.appVersion?.description,
        firstSeenAt: row?.createdAt ?? since, lastSeenAt: row.map { max($0.lastSeenAt, until) } ?? until,
        sessions: own.count)
    }
    return known.sorted { ($1.lastSeenAt, $0.keyThumbprint) < ($0.lastSeenAt, $1.keyThumbprint) }
  }

  func keys(ofGuest guest: SubjectID) -> [String] {
    tables.devices.rows.filter { $0.value.stored.guest == guest }.map(\.key).sorted()
  }

  func removeGuest(_ guest: SubjectID) {
    for (key, row) in tables.devices.rows where row.stored.guest == guest { change(key, guest: nil) }
  }

  func removeGuest(_ guest: SubjectID, from keyThumbprint: String) {
    tables.devices.change(keyThumbprint) { if $0.stored.guest == guest { $0.stored.guest = nil } }
  }

  func remove(usesOf subject: SubjectID) {
    tables.devices.remove { $1.stored.guest == subject && $1.stored.lastAccount == nil }
    removeGuest(subject)
    for (key, row) in tables.devices.rows where row.stored.lastAccount == subject {
      tables.devices.change(key) { row in
        row.stored.lastAccount = nil
        row.stored.lastLogin = nil
      }
    }
  }

  func resetCounter(_ keyThumbprint: String) {
    tables.devices.change(keyThumbprint) { row in
      row.stored.counter = nil
      row.stored.isCloned = false
    }
  }

  func move(_ keyThumbprint: String, to other: String) {
    for (key, time) in tables.mergedGuests.rows where key.device == keyThumbprint {
      tables.mergedGuests[key] = nil
      tables.mergedGuests[MemoryIdentityTables.MergedGuestKey(guest: key.guest, device: other)] = time
    }
    guard let (known, createdAt) = tables.devices[keyThumbprint].map({ ($0.stored, $0.createdAt) }) else { return }
    tables.devices.change(other) { row in
      row.stored.guest = known.guest
      row.stored.lastAccount = known.lastAccount
      row.stored.lastLogin = known.lastLogin
      row.createdAt = createdAt
    }
    tables.devices.change(keyThumbprint) { row in
      row.stored.guest = nil
      row.stored.lastAccount = nil
      row.stored.lastLogin = nil
    }
  }
}

extension DeviceRegistration {
  /// What a device did not say this time is as it said before.
  fileprivate func completed(by earlier: DeviceRegistration) -> DeviceRegistration {
    DeviceRegistration(
      keyThumbprint: keyThumbprint, publicKeyX: earlier.publicKeyX, publicKeyY: earlier.publicKeyY, deviceID: deviceID,
      label: label ?? earlier.label, platform: platform ?? earlier.platform,
      osVersion: osVersion ?? earlier.osVersion, appVersion: appVersion ?? earlier.appVersion,
      isReinstalled: isReinstalled || earlier.isReinstalled)
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

struct MemoryPurges: PurgeRows {
  let tables: MemoryIdentityTables

  func lock(_ subject: SubjectID) -> PendingPurge? { tables.purges[subject]?.purge }

  func due(at now: Timestamp, limit: Int) -> [PendingPurge] {
    let due = tables.purges.rows.values.filter { $0.dueAt <= now }
    return due.sorted { $0.dueAt < $1.dueAt }.prefix(limit).map(\.purge)
  }

  func lockDue(at now: Timestamp, limit: Int) -> [PendingPurge] { due(at: now, limit: limit) }

  func insert(_ subject: SubjectID, dueAt: Timestamp) throws(StorageError) {
    try tables.purges.insert(
      subject, MemoryIdentityTables.PurgeRow(purge: PendingPurge(subject: subject, attempts: 0), dueAt: dueAt),
      "insert a purge")
  }

  func change(_ subject: SubjectID, attempts: Int64, dueAt: Timestamp) {
    tables.purges.change(subject) { row in
      row.purge.attempts = attempts
      row.dueAt = dueAt
    }
  }

  func remove(_ subject: SubjectID) { tables.purges[subject] = nil }
}

struct MemoryGuides: GuideRows {
  let tables: MemoryIdentityTables

  func find(_ guide: GuideID, of subject: SubjectID) -> StoredGuideProgress? { tables.guides[key(guide, subject)] }

  func lock(_ guide: GuideID, of subject: SubjectID) -> StoredGuideProgress? { find(guide, of: subject) }

  func all(of subject: SubjectID) -> [StoredGuideProgress] {
    let own = tables.guides.rows.filter { $0.key.subject == subject }
    return own.values.sorted { $0.guide.description < $1.guide.description }
  }

  func put(_ progress: StoredGuideProgress, of subject: SubjectID) {
    tables.guides[key(progress.guide, subject)] = progress
  }

  func remove(of subject: SubjectID) { tables.guides.remove { key, _ in key.subject == subject } }

  private func key(_ guide: GuideID, _ subject: SubjectID) -> MemoryIdentityTables.GuideKey {
    MemoryIdentityTables.GuideKey(subject: subject, guide: guide)
  }
}
