import LatchkeyModel
import Storage
import StorageMemory

@testable import Domain

/// A transaction whose rows are far away: each load waits for the next round trip of its group, and changes are sent with
/// the group's last one. Under it is the engine in memory.
struct FarTransaction<Near: IdentityTransaction>: IdentityTransaction {
  let near: Near
  let batch: Batch

  var isShared: Bool { near.isShared }

  var subjects: FarSubjects<Near.Subjects> { FarSubjects(near: near.subjects, batch: batch) }
  var devices: FarDevices<Near.Devices> { FarDevices(near: near.devices, batch: batch) }
  var sessions: FarSessions<Near.Sessions> { FarSessions(near: near.sessions, batch: batch) }
  var identities: FarIdentities<Near.Identities> { FarIdentities(near: near.identities, batch: batch) }
  var challenges: FarChallenges<Near.Challenges> { FarChallenges(near: near.challenges, batch: batch) }
  var codes: FarCodes<Near.Codes> { FarCodes(near: near.codes, batch: batch) }
  var attempts: FarAttempts<Near.Attempts> { FarAttempts(near: near.attempts, batch: batch) }
  var unlocks: FarUnlocks<Near.Unlocks> { FarUnlocks(near: near.unlocks, batch: batch) }
  var tickets: FarTickets<Near.Tickets> { FarTickets(near: near.tickets, batch: batch) }
  var lineage: FarLineage<Near.Lineage> { FarLineage(near: near.lineage, batch: batch) }
  var merges: FarMerges<Near.Merges> { FarMerges(near: near.merges, batch: batch) }
  var mergedGuests: FarMergedGuests<Near.MergedGuests> { FarMergedGuests(near: near.mergedGuests, batch: batch) }
  var sources: FarSources<Near.Sources> { FarSources(near: near.sources, batch: batch) }
  var replays: FarReplays<Near.Replays> { FarReplays(near: near.replays, batch: batch) }
  var transfers: FarTransfers<Near.Transfers> { FarTransfers(near: near.transfers, batch: batch) }
  var grants: FarGrants<Near.Grants> { FarGrants(near: near.grants, batch: batch) }
  var guides: FarGuides<Near.Guides> { FarGuides(near: near.guides, batch: batch) }
  var purges: FarPurges<Near.Purges> { FarPurges(near: near.purges, batch: batch) }
  var notices: FarNotices<Near.Notices> { FarNotices(near: near.notices, batch: batch) }
  var upkeep: FarUpkeep<Near.Upkeep> { FarUpkeep(near: near.upkeep, batch: batch) }
  var audit: FarAudit<Near.Audit> { FarAudit(near: near.audit, batch: batch) }
}

struct FarSubjects<Near: SubjectRows>: SubjectRows {
  let near: Near
  let batch: Batch

  func find(_ id: SubjectID) async throws(StorageError) -> Subject? {
    await batch.load()
    return try await near.find(id)
  }

  func lock(_ id: SubjectID) async throws(StorageError) -> Subject? {
    await batch.load()
    return try await near.lock(id)
  }

  func standing(of id: SubjectID) async throws(StorageError) -> SubjectStanding? {
    await batch.load()
    return try await near.standing(of: id)
  }

  func countGuests() async throws(StorageError) -> Int {
    await batch.load()
    return try await near.countGuests()
  }

  func unusedGuests(
    before time: Timestamp, after last: UnusedGuest?, limit: Int
  ) async throws(StorageError) -> [UnusedGuest] {
    await batch.load()
    return try await near.unusedGuests(before: time, after: last, limit: limit)
  }

  func change(_ id: SubjectID, disabledAt time: Timestamp?) async throws(StorageError) {
    try await near.change(id, disabledAt: time)
  }

  func change(_ id: SubjectID, exportedAt time: Timestamp, recordsVersion: Int64) async throws(StorageError) {
    try await near.change(id, exportedAt: time, recordsVersion: recordsVersion)
  }

  func change(_ id: SubjectID, deletedAt time: Timestamp) async throws(StorageError) {
    try await near.change(id, deletedAt: time)
  }

  func insert(_ subject: Subject) async throws(StorageError) {
    try await near.insert(subject)
  }

  func change(_ subject: Subject, usedAt now: Timestamp) async throws(StorageError) {
    try await near.change(subject, usedAt: now)
  }

  func change(_ id: SubjectID, usedAt now: Timestamp) async throws(StorageError) {
    try await near.change(id, usedAt: now)
  }

}

struct FarDevices<Near: DeviceRows>: DeviceRows {
  let near: Near
  let batch: Batch

  func find(_ keyThumbprint: String) async throws(StorageError) -> StoredDevice? {
    await batch.load()
    return try await near.find(keyThumbprint)
  }

  func lock(_ keyThumbprint: String) async throws(StorageError) -> StoredDevice? {
    await batch.load()
    return try await near.lock(keyThumbprint)
  }

  func label(of keyThumbprint: String) async throws(StorageError) -> DisplayText? {
    await batch.load()
    return try await near.label(of: keyThumbprint)
  }

  func all(usedBy subject: SubjectID, at now: Timestamp) async throws(StorageError) -> [KnownDevice] {
    await batch.load()
    return try await near.all(usedBy: subject, at: now)
  }

  func change(_ keyThumbprint: String, label: DisplayText) async throws(StorageError) {
    try await near.change(keyThumbprint, label: label)
  }

  func put(
    _ device: DeviceRegistration, counter: ProofCounter?, newGuest guest: SubjectID?, at now: Timestamp
  ) async throws(StorageError) {
    try await near.put(device, counter: counter, newGuest: guest, at: now)
  }

  func change(_ keyThumbprint: String, guest: SubjectID?) async throws(StorageError) {
    try await near.change(keyThumbprint, guest: guest)
  }

  func change(_ keyThumbprint: String, clonedAt time: Timestamp) async throws(StorageError) {
    try await near.change(keyThumbprint, clonedAt: time)
  }

  func change(_ keyThumbprint: String, lastAccount: SubjectID, _ hint: LastLoginHint) async throws(StorageError) {
    try await near.change(keyThumbprint, lastAccount: lastAccount, hint)
  }

  func keys(ofGuest guest: SubjectID) async throws(StorageError) -> [String] {
    await batch.load()
    return try await near.keys(ofGuest: guest)
  }

  func removeGuest(_ guest: SubjectID) async throws(StorageError) {
    try await near.removeGuest(guest)
  }

  func removeGuest(_ guest: SubjectID, from keyThumbprint: String) async throws(StorageError) {
    try await near.removeGuest(guest, from: keyThumbprint)
  }

  func remove(usesOf subject: SubjectID) async throws(StorageError) {
    try await near.remove(usesOf: subject)
  }

  func resetCounter(_ keyThumbprint: String) async throws(StorageError) {
    try await near.resetCounter(keyThumbprint)
  }

  func move(_ keyThumbprint: String, to other: String) async throws(StorageError) {
    try await near.move(keyThumbprint, to: other)
  }

}

struct FarSessions<Near: SessionRows>: SessionRows {
  let near: Near
  let batch: Batch

  func newest(of subject: SubjectID, onDevice keyThumbprint: String) async throws(StorageError) -> Session? {
    await batch.load()
    return try await near.newest(of: subject, onDevice: keyThumbprint)
  }

  func find(_ id: SessionID) async throws(StorageError) -> Session? {
    await batch.load()
    return try await near.find(id)
  }

  func lock(_ id: SessionID) async throws(StorageError) -> Session? {
    await batch.load()
    return try await near.lock(id)
  }

  func live(of subject: SubjectID, at now: Timestamp, limit: Int) async throws(StorageError) -> [Session] {
    await batch.load()
    return try await near.live(of: subject, at: now, limit: limit)
  }

  func wasUsed(_ account: SubjectID, onDevice keyThumbprint: String) async throws(StorageError) -> Bool {
    await batch.load()
    return try await near.wasUsed(account, onDevice: keyThumbprint)
  }

  func lastRotation(of subject: SubjectID) async throws(StorageError) -> Timestamp? {
    await batch.load()
    return try await near.lastRotation(of: subject)
  }

  func end(
    begunUntil time: Timestamp, limit: Int, because why: Session.End, at now: Timestamp
  ) async throws(StorageError) -> [EndedSession] {
    await batch.load()
    return try await near.end(begunUntil: time, limit: limit, because: why, at: now)
  }

  func insert(_ session: Session) async throws(StorageError) {
    try await near.insert(session)
  }

  func changeFamily(of session: Session) async throws(StorageError) {
    try await near.changeFamily(of: session)
  }

  func change(_ session: Session) async throws(StorageError) {
    try await near.change(session)
  }

  func change(
    of subject: SubjectID, onDevice keyThumbprint: String, label: DisplayText, at now: Timestamp
  ) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.change(of: subject, onDevice: keyThumbprint, label: label, at: now)
  }

  func end(_ id: SessionID, because why: Session.End, at now: Timestamp) async throws(StorageError) -> EndedSession? {
    await batch.load()
    return try await near.end(id, because: why, at: now)
  }

  func end(of subject: SubjectID, except kept: SessionID?, because why: Session.End, at now: Timestamp)
    async throws(StorageError) -> [EndedSession]
  {
    await batch.load()
    return try await near.end(of: subject, except: kept, because: why, at: now)
  }

  func end(of subject: SubjectID, onDevice keyThumbprint: String, because why: Session.End, at now: Timestamp)
    async throws(StorageError) -> [EndedSession]
  {
    await batch.load()
    return try await near.end(of: subject, onDevice: keyThumbprint, because: why, at: now)
  }

  func changeDevice(of subject: SubjectID, _ keyThumbprint: String, to other: String) async throws(StorageError) -> Int
  {
    await batch.load()
    return try await near.changeDevice(of: subject, keyThumbprint, to: other)
  }

  func device(of subject: SubjectID, leftAt time: Timestamp, because why: Session.End) async throws(StorageError)
    -> String?
  {
    await batch.load()
    return try await near.device(of: subject, leftAt: time, because: why)
  }

  func remove(overBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(overBefore: time, limit: limit)
  }

  func ended(since time: Timestamp) async throws(StorageError) -> [EndedSession] {
    await batch.load()
    return try await near.ended(since: time)
  }
}

struct FarIdentities<Near: IdentityRows>: IdentityRows {
  let near: Near
  let batch: Batch

  func find(_ identifier: AccountIdentifier) async throws(StorageError) -> (identity: Identity, owner: SubjectID)? {
    await batch.load()
    return try await near.find(identifier)
  }

  func lock(_ identifier: AccountIdentifier) async throws(StorageError) -> (identity: Identity, owner: SubjectID)? {
    await batch.load()
    return try await near.lock(identifier)
  }

  func account(for identifier: AccountIdentifier) async throws(StorageError) -> PasswordAccount? {
    await batch.load()
    return try await near.account(for: identifier)
  }

  func all(of account: SubjectID) async throws(StorageError) -> [Identity] {
    await batch.load()
    return try await near.all(of: account)
  }

  func first(of account: SubjectID) async throws(StorageError) -> Identity? {
    await batch.load()
    return try await near.first(of: account)
  }

  func insert(_ identity: Identity, secretHash: String?, of account: SubjectID) async throws(StorageError) -> Bool {
    await batch.load()
    return try await near.insert(identity, secretHash: secretHash, of: account)
  }

  func remove(_ kind: AccountIdentifier.Kind, _ value: String, of account: SubjectID) async throws(StorageError) -> Bool
  {
    await batch.load()
    return try await near.remove(kind, value, of: account)
  }

  func remove(of account: SubjectID) async throws(StorageError) {
    try await near.remove(of: account)
  }

  func change(_ identifier: AccountIdentifier, verifiedAt time: Timestamp) async throws(StorageError) {
    try await near.change(identifier, verifiedAt: time)
  }

  func findPassword(of account: SubjectID) async throws(StorageError) -> String? {
    await batch.load()
    return try await near.findPassword(of: account)
  }

  func lockPassword(of account: SubjectID) async throws(StorageError) -> String? {
    await batch.load()
    return try await near.lockPassword(of: account)
  }

  func putPassword(_ hash: String, of account: SubjectID, at now: Timestamp) async throws(StorageError) {
    try await near.putPassword(hash, of: account, at: now)
  }

  func removePassword(of account: SubjectID) async throws(StorageError) {
    try await near.removePassword(of: account)
  }

  func change(_ identifier: AccountIdentifier, secretHash: String) async throws(StorageError) {
    try await near.change(identifier, secretHash: secretHash)
  }

}

struct FarChallenges<Near: ChallengeRows>: ChallengeRows {
  let near: Near
  let batch: Batch

  func isUsed(_ challenge: UsedChallenge) async throws(StorageError) -> Bool {
    await batch.load()
    return try await near.isUsed(challenge)
  }

  func insert(_ challenge: UsedChallenge) async throws(StorageError) -> Bool {
    await batch.load()
    return try await near.insert(challenge)
  }

  func remove(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(expiredBefore: time, limit: limit)
  }
}

struct FarCodes<Near: OneTimeCodeRows>: OneTimeCodeRows {
  let near: Near
  let batch: Batch

  func lock(_ identifierHash: [UInt8], _ share: String) async throws(StorageError) -> StoredCode? {
    await batch.load()
    return try await near.lock(identifierHash, share)
  }

  func lockAll(of identifierHash: [UInt8]) async throws(StorageError) -> [StoredCode] {
    await batch.load()
    return try await near.lockAll(of: identifierHash)
  }

  func remove(sentBefore time: Timestamp, limit: Int) async throws(StorageError) {
    try await near.remove(sentBefore: time, limit: limit)
  }

  func put(_ code: StoredCode) async throws(StorageError) {
    try await near.put(code)
  }

  func spend(_ code: OneTimeCode, at now: Timestamp) async throws(StorageError) -> Bool {
    await batch.load()
    return try await near.spend(code, at: now)
  }

}

struct FarUnlocks<Near: UnlockRows>: UnlockRows {
  let near: Near
  let batch: Batch

  func find(_ kind: Unlock.Kind, _ keyThumbprint: String) async throws(StorageError) -> Unlock? {
    await batch.load()
    return try await near.find(kind, keyThumbprint)
  }

  func all(of account: SubjectID) async throws(StorageError) -> [Unlock] {
    await batch.load()
    return try await near.all(of: account)
  }

  func lock(
    _ kind: Unlock.Kind, _ keyThumbprint: String
  ) async throws(StorageError) -> (unlock: Unlock, triesLeft: Int64)? {
    await batch.load()
    return try await near.lock(kind, keyThumbprint)
  }

  func put(_ unlock: Unlock, triesLeft: Int64) async throws(StorageError) {
    try await near.put(unlock, triesLeft: triesLeft)
  }

  func change(_ kind: Unlock.Kind, _ keyThumbprint: String, triesLeft: Int64) async throws(StorageError) {
    try await near.change(kind, keyThumbprint, triesLeft: triesLeft)
  }

  func remove(_ kind: Unlock.Kind, _ keyThumbprint: String, of account: SubjectID) async throws(StorageError) -> Bool {
    await batch.load()
    return try await near.remove(kind, keyThumbprint, of: account)
  }

  func remove(of account: SubjectID, onDevice keyThumbprint: String) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(of: account, onDevice: keyThumbprint)
  }

  func remove(of account: SubjectID, exceptDevice keyThumbprint: String?) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(of: account, exceptDevice: keyThumbprint)
  }

  func bound(by qrSession: String) async throws(StorageError) -> Unlock? {
    await batch.load()
    return try await near.bound(by: qrSession)
  }

  func changeKey(ofBinding keyThumbprint: String, to other: String) async throws(StorageError) {
    try await near.changeKey(ofBinding: keyThumbprint, to: other)
  }

  func changeDevice(_ keyThumbprint: String, to other: String) async throws(StorageError) {
    try await near.changeDevice(keyThumbprint, to: other)
  }

  func remove(ofKey keyThumbprint: String) async throws(StorageError) {
    try await near.remove(ofKey: keyThumbprint)
  }

}

struct FarTickets<Near: LinkTicketRows>: LinkTicketRows {
  let near: Near
  let batch: Batch

  func find(_ hash: [UInt8]) async throws(StorageError) -> LinkTicket? {
    await batch.load()
    return try await near.find(hash)
  }

  func lock(_ hash: [UInt8]) async throws(StorageError) -> LinkTicket? {
    await batch.load()
    return try await near.lock(hash)
  }

  func put(_ ticket: LinkTicket) async throws(StorageError) {
    try await near.put(ticket)
  }

  func remove(_ hash: [UInt8]) async throws(StorageError) {
    try await near.remove(hash)
  }

  func remove(of account: SubjectID) async throws(StorageError) {
    try await near.remove(of: account)
  }

  func remove(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(expiredBefore: time, limit: limit)
  }
}

struct FarLineage<Near: LineageRows>: LineageRows {
  let near: Near
  let batch: Batch

  func ancestors(of member: LineageMember) async throws(StorageError) -> [LineageMember] {
    await batch.load()
    return try await near.ancestors(of: member)
  }

  func descendants(of member: LineageMember) async throws(StorageError) -> [LineageMember] {
    await batch.load()
    return try await near.descendants(of: member)
  }

  func insert(_ member: LineageMember, cameOf ancestor: LineageMember) async throws(StorageError) {
    try await near.insert(member, cameOf: ancestor)
  }

  func insert(_ member: LineageMember, cameOfAncestorsOf source: LineageMember) async throws(StorageError) {
    try await near.insert(member, cameOfAncestorsOf: source)
  }

  func insert(descendantsOf earlier: LineageMember, cameOf member: LineageMember) async throws(StorageError) {
    try await near.insert(descendantsOf: earlier, cameOf: member)
  }

  func remove(ancestorsOf member: LineageMember) async throws(StorageError) {
    try await near.remove(ancestorsOf: member)
  }

}

struct FarMerges<Near: MergeRows>: MergeRows {
  let near: Near
  let batch: Batch

  func find(_ id: MergeID) async throws(StorageError) -> PendingMerge? {
    await batch.load()
    return try await near.find(id)
  }

  func lock(_ id: MergeID) async throws(StorageError) -> PendingMerge? {
    await batch.load()
    return try await near.lock(id)
  }

  func lockDue(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingMerge] {
    await batch.load()
    return try await near.lockDue(at: now, limit: limit)
  }

  func due(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingMerge] {
    await batch.load()
    return try await near.due(at: now, limit: limit)
  }

  func change(_ id: MergeID, plan: PendingMerge.Plan?) async throws(StorageError) {
    try await near.change(id, plan: plan)
  }

  func change(_ merge: PendingMerge, at now: Timestamp) async throws(StorageError) {
    try await near.change(merge, at: now)
  }

  func change(_ merge: PendingMerge, dueAt: Timestamp) async throws(StorageError) {
    try await near.change(merge, dueAt: dueAt)
  }

  func open(of guest: SubjectID) async throws(StorageError) -> PendingMerge? {
    await batch.load()
    return try await near.open(of: guest)
  }

  func insert(_ merge: PendingMerge, dueAt: Timestamp, at now: Timestamp) async throws(StorageError) {
    try await near.insert(merge, dueAt: dueAt, at: now)
  }

  func changeSessions(of merge: PendingMerge, at now: Timestamp) async throws(StorageError) {
    try await near.changeSessions(of: merge, at: now)
  }

  func remove(overBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(overBefore: time, limit: limit)
  }
}

struct FarSources<Near: SignInSourceRows>: SignInSourceRows {
  let near: Near
  let batch: Batch

  func find(_ source: String, of account: SubjectID) async throws(StorageError) -> Timestamp? {
    await batch.load()
    return try await near.find(source, of: account)
  }

  func put(_ source: String, of account: SubjectID, at now: Timestamp) async throws(StorageError) {
    try await near.put(source, of: account, at: now)
  }

  func remove(of account: SubjectID, allBut count: Int) async throws(StorageError) {
    try await near.remove(of: account, allBut: count)
  }

}

struct FarReplays<Near: SignInReplayRows>: SignInReplayRows {
  let near: Near
  let batch: Batch

  func find(_ key: [UInt8]) async throws(StorageError) -> SignInReplay? {
    await batch.load()
    return try await near.find(key)
  }

  func lock(_ key: [UInt8]) async throws(StorageError) -> SignInReplay? {
    await batch.load()
    return try await near.lock(key)
  }

  func put(_ replay: SignInReplay, _ key: [UInt8]) async throws(StorageError) {
    try await near.put(replay, key)
  }

  func removeExpired(at now: Timestamp, limit: Int) async throws(StorageError) {
    try await near.removeExpired(at: now, limit: limit)
  }

}

struct FarGrants<Near: QRGrantRows>: QRGrantRows {
  let near: Near
  let batch: Batch

  func change(_ session: SessionID, to other: SessionID) async throws(StorageError) {
    try await near.change(session, to: other)
  }

  func put(
    _ qrSession: String, session: SessionID?, turn: Int64?, at now: Timestamp
  ) async throws(StorageError) {
    try await near.put(qrSession, session: session, turn: turn, at: now)
  }

  func find(_ qrSession: String) async throws(StorageError) -> QRGrantRecord? {
    await batch.load()
    return try await near.find(qrSession)
  }

  func lock(_ qrSession: String) async throws(StorageError) -> QRGrantRecord? {
    await batch.load()
    return try await near.lock(qrSession)
  }

  func revoke(_ qrSession: String, at now: Timestamp) async throws(StorageError) {
    try await near.revoke(qrSession, at: now)
  }

  func remove(emptyBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(emptyBefore: time, limit: limit)
  }
}

struct FarTransfers<Near: TransferRows>: TransferRows {
  let near: Near
  let batch: Batch

  func find(_ secretHash: [UInt8]) async throws(StorageError) -> TransferRecord? {
    await batch.load()
    return try await near.find(secretHash)
  }

  func lock(_ secretHash: [UInt8]) async throws(StorageError) -> TransferRecord? {
    await batch.load()
    return try await near.lock(secretHash)
  }

  func lock(_ id: TransferID) async throws(StorageError) -> TransferRecord? {
    await batch.load()
    return try await near.lock(id)
  }

  func put(_ record: TransferRecord) async throws(StorageError) {
    try await near.put(record)
  }

  func change(_ id: TransferID, triesLeft: Int64) async throws(StorageError) {
    try await near.change(id, triesLeft: triesLeft)
  }

  func change(_ id: TransferID, redeemed: TransferRecord.Redeemed) async throws(StorageError) {
    try await near.change(id, redeemed: redeemed)
  }

  func remove(_ id: TransferID) async throws(StorageError) {
    try await near.remove(id)
  }

  func remove(of subject: SubjectID) async throws(StorageError) {
    try await near.remove(of: subject)
  }

  func remove(offerOf session: SessionID) async throws(StorageError) {
    try await near.remove(offerOf: session)
  }

  func remove(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(expiredBefore: time, limit: limit)
  }
}

struct FarGuides<Near: GuideRows>: GuideRows {
  let near: Near
  let batch: Batch

  func find(_ guide: GuideID, of subject: SubjectID) async throws(StorageError) -> StoredGuideProgress? {
    await batch.load()
    return try await near.find(guide, of: subject)
  }

  func lock(_ guide: GuideID, of subject: SubjectID) async throws(StorageError) -> StoredGuideProgress? {
    await batch.load()
    return try await near.lock(guide, of: subject)
  }

  func all(of subject: SubjectID) async throws(StorageError) -> [StoredGuideProgress] {
    await batch.load()
    return try await near.all(of: subject)
  }

  func put(_ progress: StoredGuideProgress, of subject: SubjectID) async throws(StorageError) {
    try await near.put(progress, of: subject)
  }

  func remove(of subject: SubjectID) async throws(StorageError) {
    try await near.remove(of: subject)
  }
}

struct FarMergedGuests<Near: MergedGuestRows>: MergedGuestRows {
  let near: Near
  let batch: Batch

  func devices(of guest: SubjectID) async throws(StorageError) -> [String] {
    await batch.load()
    return try await near.devices(of: guest)
  }

  func put(_ guest: SubjectID, onDevice keyThumbprint: String, at now: Timestamp) async throws(StorageError) {
    try await near.put(guest, onDevice: keyThumbprint, at: now)
  }

  func remove(of guest: SubjectID) async throws(StorageError) {
    try await near.remove(of: guest)
  }

  func remove(before time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(before: time, limit: limit)
  }

  func isRecalled(_ migration: String, of guest: SubjectID) async throws(StorageError) -> Bool {
    await batch.load()
    return try await near.isRecalled(migration, of: guest)
  }

  func recall(_ migration: String, of guest: SubjectID, at now: Timestamp) async throws(StorageError) {
    try await near.recall(migration, of: guest, at: now)
  }

  func removeRecalls(of guest: SubjectID) async throws(StorageError) {
    try await near.removeRecalls(of: guest)
  }
}

struct FarPurges<Near: PurgeRows>: PurgeRows {
  let near: Near
  let batch: Batch

  func lock(_ subject: SubjectID) async throws(StorageError) -> PendingPurge? {
    await batch.load()
    return try await near.lock(subject)
  }

  func lockDue(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingPurge] {
    await batch.load()
    return try await near.lockDue(at: now, limit: limit)
  }

  func due(at now: Timestamp, limit: Int) async throws(StorageError) -> [PendingPurge] {
    await batch.load()
    return try await near.due(at: now, limit: limit)
  }

  func insert(_ subject: SubjectID, dueAt: Timestamp) async throws(StorageError) {
    try await near.insert(subject, dueAt: dueAt)
  }

  func change(_ subject: SubjectID, attempts: Int64, dueAt: Timestamp) async throws(StorageError) {
    try await near.change(subject, attempts: attempts, dueAt: dueAt)
  }

  func remove(_ subject: SubjectID) async throws(StorageError) {
    try await near.remove(subject)
  }
}

struct FarAttempts<Near: AttemptRows>: AttemptRows {
  let near: Near
  let batch: Batch

  func lock(_ target: [UInt8], _ share: String) async throws(StorageError) -> CountedTries? {
    await batch.load()
    return try await near.lock(target, share)
  }

  func put(_ tries: CountedTries, _ target: [UInt8], _ share: String) async throws(StorageError) {
    try await near.put(tries, target, share)
  }

  func remove(_ target: [UInt8], _ share: String) async throws(StorageError) {
    try await near.remove(target, share)
  }

  func remove(lastBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(lastBefore: time, limit: limit)
  }
}
