import LatchkeyModel
import Storage

struct MemoryIdentities: IdentityRows {
  let tables: MemoryIdentityTables

  func find(_ identifier: AccountIdentifier) -> (identity: Identity, owner: SubjectID)? {
    tables.identities[key(identifier)].map { ($0.identity, $0.owner) }
  }

  func lock(_ identifier: AccountIdentifier) -> (identity: Identity, owner: SubjectID)? { find(identifier) }

  func account(for identifier: AccountIdentifier) -> PasswordAccount? {
    guard let row = tables.identities[key(identifier)] else { return nil }
    return PasswordAccount(
      subject: row.owner, passwordHash: row.secretHash ?? tables.passwords[row.owner], isProven: row.identity.isProven)
  }

  func all(of account: SubjectID) -> [Identity] {
    let identities = tables.identities.rows.values.filter { $0.owner == account }.map(\.identity)
    return identities.sorted { ($0.linkedAt, $0.kind.rawValue, $0.value) < ($1.linkedAt, $1.kind.rawValue, $1.value) }
  }

  func first(of account: SubjectID) -> Identity? { all(of: account).first }

  func insert(_ identity: Identity, secretHash: String?, of account: SubjectID) -> Bool {
    let key = MemoryIdentityTables.IdentityKey(kind: identity.kind, value: identity.value)
    guard tables.identities[key] == nil else { return false }
    tables.identities[key] = MemoryIdentityTables.IdentityRow(
      identity: identity, owner: account, secretHash: secretHash)
    return true
  }

  func remove(_ kind: AccountIdentifier.Kind, _ value: String, of account: SubjectID) -> Bool {
    let key = MemoryIdentityTables.IdentityKey(kind: kind, value: value)
    guard tables.identities[key]?.owner == account else { return false }
    tables.identities[key] = nil
    return true
  }

  func remove(of account: SubjectID) { tables.identities.remove { $1.owner == account } }

  func change(_ identifier: AccountIdentifier, verifiedAt time: Timestamp) {
    tables.identities.change(key(identifier)) { $0.identity.verifiedAt = time }
  }

  func findPassword(of account: SubjectID) -> String? { tables.passwords[account] }

  func lockPassword(of account: SubjectID) -> String? { findPassword(of: account) }

  func putPassword(_ hash: String, of account: SubjectID, at now: Timestamp) { tables.passwords[account] = hash }

  func removePassword(of account: SubjectID) { tables.passwords[account] = nil }

  func change(_ identifier: AccountIdentifier, secretHash: String) {
    tables.identities.change(key(identifier)) { $0.secretHash = secretHash }
  }

  private func key(_ identifier: AccountIdentifier) -> MemoryIdentityTables.IdentityKey {
    MemoryIdentityTables.IdentityKey(kind: identifier.kind, value: identifier.canonical)
  }
}

struct MemoryChallenges: ChallengeRows {
  let tables: MemoryIdentityTables

  func isUsed(_ challenge: UsedChallenge) -> Bool { tables.challenges[key(challenge)] != nil }

  func insert(_ challenge: UsedChallenge) -> Bool {
    guard !isUsed(challenge) else { return false }
    tables.challenges[key(challenge)] = true
    return true
  }

  private func key(_ challenge: UsedChallenge) -> MemoryIdentityTables.ChallengeKey {
    MemoryIdentityTables.ChallengeKey(expiry: challenge.expiry, hash: challenge.hash)
  }

  func remove(expiredBefore time: Timestamp, limit: Int) -> Int {
    tables.challenges.removeOldest(before: time, limit: limit) { key, _ in key.expiry }
  }
}

struct MemoryCodes: OneTimeCodeRows {
  let tables: MemoryIdentityTables

  func lock(_ identifierHash: [UInt8], _ share: String) -> StoredCode? { tables.codes[key(identifierHash, share)] }

  func lockAll(of identifierHash: [UInt8]) -> [StoredCode] {
    tables.codes.rows.filter { $0.key.identifierHash == identifierHash }.values.sorted { $0.share < $1.share }
  }

  func put(_ code: StoredCode) { tables.codes[key(code.code.identifierHash, code.share)] = code }

  func remove(sentBefore time: Timestamp, limit: Int) {
    let old = tables.codes.rows.filter { $0.value.sentAt < time }.sorted { $0.value.sentAt < $1.value.sentAt }
    for (key, _) in old.prefix(limit) { tables.codes[key] = nil }
  }

  private func key(_ identifierHash: [UInt8], _ share: String) -> MemoryIdentityTables.CodeKey {
    MemoryIdentityTables.CodeKey(identifierHash: identifierHash, share: share)
  }

  func spend(_ code: OneTimeCode, at now: Timestamp) -> Bool {
    let live = tables.codes.rows.filter {
      $0.value.code == code && $0.value.expiry > now && $0.value.attemptsLeft + $0.value.elsewhereLeft > 0
    }
    for key in live.keys {
      tables.codes.change(key) { row in
        row.attemptsLeft = 0
        row.elsewhereLeft = 0
        row.code.codeHash = []
      }
    }
    return !live.isEmpty
  }
}

struct MemoryAttempts: AttemptRows {
  let tables: MemoryIdentityTables

  func lock(_ target: [UInt8], _ share: String) -> CountedTries? { tables.attempts[key(target, share)] }

  func put(_ tries: CountedTries, _ target: [UInt8], _ share: String) { tables.attempts[key(target, share)] = tries }

  func remove(_ target: [UInt8], _ share: String) { tables.attempts[key(target, share)] = nil }

  private func key(_ target: [UInt8], _ share: String) -> MemoryIdentityTables.AttemptKey {
    MemoryIdentityTables.AttemptKey(target: target, share: share)
  }

  func remove(lastBefore time: Timestamp, limit: Int) -> Int {
    tables.attempts.removeOldest(before: time, limit: limit) { _, row in row.lastAt }
  }
}

struct MemoryUnlocks: UnlockRows {
  let tables: MemoryIdentityTables

  func find(_ kind: Unlock.Kind, _ keyThumbprint: String) -> Unlock? {
    tables.unlocks[key(kind, keyThumbprint)]?.unlock
  }

  func lock(_ kind: Unlock.Kind, _ keyThumbprint: String) -> (unlock: Unlock, triesLeft: Int64)? {
    tables.unlocks[key(kind, keyThumbprint)].map { ($0.unlock, $0.triesLeft) }
  }

  func all(of account: SubjectID) -> [Unlock] {
    tables.unlocks.rows.values.map(\.unlock).filter { $0.account == account }.sorted {
      ($0.enrolledAt, $0.kind.rawValue, $0.keyThumbprint) < ($1.enrolledAt, $1.kind.rawValue, $1.keyThumbprint)
    }
  }

  func put(_ unlock: Unlock, triesLeft: Int64) {
    tables.unlocks[key(unlock.kind, unlock.keyThumbprint)] = MemoryIdentityTables.UnlockRow(
      unlock: unlock, triesLeft: triesLeft)
  }

  func change(_ kind: Unlock.Kind, _ keyThumbprint: String, triesLeft: Int64) {
    tables.unlocks.change(key(kind, keyThumbprint)) { $0.triesLeft = triesLeft }
  }

  func remove(_ kind: Unlock.Kind, _ keyThumbprint: String, of account: SubjectID) -> Bool {
    guard find(kind, keyThumbprint)?.account == account else { return false }
    tables.unlocks[key(kind, keyThumbprint)] = nil
    return true
  }

  func remove(of account: SubjectID, onDevice keyThumbprint: String) -> Int {
    tables.unlocks.remove { $1.unlock.account == account && $1.unlock.deviceKey == keyThumbprint }
  }

  func remove(of account: SubjectID, exceptDevice keyThumbprint: String?) -> Int {
    tables.unlocks.remove { $1.unlock.account == account && $1.unlock.deviceKey != keyThumbprint }
  }

  func bound(by qrSession: String) -> Unlock? {
    tables.unlocks.rows.values.first { $0.unlock.binding?.qrSession == qrSession }?.unlock
  }

  func changeKey(ofBinding keyThumbprint: String, to other: String) {
    for (key, row) in tables.unlocks.rows
    where row.unlock.keyThumbprint == keyThumbprint && row.unlock.binding != nil {
      tables.unlocks[key] = nil
      var unlock = row.unlock
      unlock.keyThumbprint = other
      put(unlock, triesLeft: row.triesLeft)
    }
  }

  func changeDevice(_ keyThumbprint: String, to other: String) {
    for (key, row) in tables.unlocks.rows
    where row.unlock.deviceKey == keyThumbprint && row.unlock.keyThumbprint != keyThumbprint {
      tables.unlocks.change(key) { $0.unlock.deviceKey = other }
    }
  }

  func remove(ofKey keyThumbprint: String) { tables.unlocks.remove { $1.unlock.keyThumbprint == keyThumbprint } }

  private func key(_ kind: Unlock.Kind, _ keyThumbprint: String) -> MemoryIdentityTables.UnlockKey {
    MemoryIdentityTables.UnlockKey(kind: kind, keyThumbprint: keyThumbprint)
  }
}

struct MemoryTickets: LinkTicketRows {
  let tables: MemoryIdentityTables

  func find(_ hash: [UInt8]) -> LinkTicket? { tables.tickets[hash] }

  func lock(_ hash: [UInt8]) -> LinkTicket? { find(hash) }

  func put(_ ticket: LinkTicket) {
    tables.tickets.remove { $1.guestSession == ticket.guestSession }
    tables.tickets[ticket.hash] = ticket
  }

  func remove(_ hash: [UInt8]) { tables.tickets[hash] = nil }

  func remove(of account: SubjectID) { tables.tickets.remove { $1.account == account } }

  func remove(expiredBefore time: Timestamp, limit: Int) -> Int {
    tables.tickets.removeOldest(before: time, limit: limit) { _, row in row.expiry }
  }
}

struct MemorySources: SignInSourceRows {
  let tables: MemoryIdentityTables

  func find(_ source: String, of account: SubjectID) -> Timestamp? { tables.sources[key(source, account)] }

  func put(_ source: String, of account: SubjectID, at now: Timestamp) { tables.sources[key(source, account)] = now }

  func remove(of account: SubjectID, allBut count: Int) {
    let own = tables.sources.rows.filter { $0.key.account == account }
    let oldest = own.sorted { ($1.value, $0.key.source) < ($0.value, $1.key.source) }.dropFirst(count)
    for (key, _) in oldest { tables.sources[key] = nil }
  }

  private func key(_ source: String, _ account: SubjectID) -> MemoryIdentityTables.SourceKey {
    MemoryIdentityTables.SourceKey(account: account, source: source)
  }
}

struct MemoryReplays: SignInReplayRows {
  let tables: MemoryIdentityTables

  func find(_ key: [UInt8]) -> SignInReplay? { tables.replays[key] }

  func lock(_ key: [UInt8]) -> SignInReplay? { find(key) }

  func put(_ replay: SignInReplay, _ key: [UInt8]) { tables.replays[key] = replay }

  func removeExpired(at now: Timestamp, limit: Int) {
    let expired = tables.replays.rows.filter { $0.value.expiry <= now }.sorted { $0.value.expiry < $1.value.expiry }
    for (key, _) in expired.prefix(limit) { tables.replays[key] = nil }
  }
}

struct MemoryGrants: QRGrantRows {
  let tables: MemoryIdentityTables

  func put(_ qrSession: String, session: SessionID?, turn: Int64?, at now: Timestamp) {
    var row = tables.grants[qrSession] ?? QRGrantRecord(session: nil, createdAt: now, isRevoked: false)
    if let session { row.session = session }
    if let turn { row.turn = turn }
    tables.grants[qrSession] = row
  }

  func find(_ qrSession: String) -> QRGrantRecord? { tables.grants[qrSession] }

  func lock(_ qrSession: String) -> QRGrantRecord? { find(qrSession) }

  func revoke(_ qrSession: String, at now: Timestamp) {
    var row = tables.grants[qrSession] ?? QRGrantRecord(session: nil, createdAt: now, isRevoked: true)
    row.isRevoked = true
    tables.grants[qrSession] = row
  }

  func change(_ session: SessionID, to other: SessionID) {
    for (key, row) in tables.grants.rows where row.session == session {
      tables.grants.change(key) { $0.session = other }
    }
  }

  func remove(emptyBefore time: Timestamp, limit: Int) -> Int {
    tables.grants.removeOldest(before: time, limit: limit) { _, row in row.session == nil ? row.createdAt : nil }
  }
}

struct MemoryTransfers: TransferRows {
  let tables: MemoryIdentityTables

  func find(_ secretHash: [UInt8]) -> TransferRecord? {
    tables.transfers.rows.values.first { $0.offer.codeHash == secretHash || $0.offer.referenceHash == secretHash }
  }

  func lock(_ secretHash: [UInt8]) -> TransferRecord? { find(secretHash) }

  func lock(_ id: TransferID) -> TransferRecord? { tables.transfers[id] }

  func put(_ record: TransferRecord) {
    tables.transfers.remove { $1.session == record.session }
    tables.transfers[record.offer.id] = record
  }

  func change(_ id: TransferID, triesLeft: Int64) { tables.transfers.change(id) { $0.triesLeft = triesLeft } }

  func change(_ id: TransferID, redeemed: TransferRecord.Redeemed) {
    tables.transfers.change(id) { $0.redeemed = redeemed }
  }

  func remove(_ id: TransferID) { tables.transfers[id] = nil }

  func remove(of subject: SubjectID) { tables.transfers.remove { $1.subject == subject } }

  func remove(offerOf session: SessionID) {
    tables.transfers.remove { $1.session == session && $1.redeemed == nil }
  }

  func remove(expiredBefore time: Timestamp, limit: Int) -> Int {
    tables.transfers.removeOldest(before: time, limit: limit) { _, row in row.offer.expiry }
  }
}
