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

  func putPassword(_ hash: String, of account: SubjectID, at now: Timestamp) { tables.passwords[account] = hash }

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
}

struct MemoryCodes: OneTimeCodeRows {
  let tables: MemoryIdentityTables

  func put(_ code: StoredCode) {
    let key = MemoryIdentityTables.CodeKey(identifierHash: code.code.identifierHash, share: code.share)
    tables.codes[key] = code
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

struct MemoryUnlocks: UnlockRows {
  let tables: MemoryIdentityTables

  func find(_ kind: Unlock.Kind, _ keyThumbprint: String) -> Unlock? { tables.unlocks[key(kind, keyThumbprint)] }

  func all(of account: SubjectID) -> [Unlock] {
    tables.unlocks.rows.values.filter { $0.account == account }.sorted {
      ($0.enrolledAt, $0.kind.rawValue, $0.keyThumbprint) < ($1.enrolledAt, $1.kind.rawValue, $1.keyThumbprint)
    }
  }

  func put(_ unlock: Unlock) { tables.unlocks[key(unlock.kind, unlock.keyThumbprint)] = unlock }

  func remove(_ kind: Unlock.Kind, _ keyThumbprint: String, of account: SubjectID) -> Bool {
    guard find(kind, keyThumbprint)?.account == account else { return false }
    tables.unlocks[key(kind, keyThumbprint)] = nil
    return true
  }

  func remove(of account: SubjectID, onDevice keyThumbprint: String) -> Int {
    tables.unlocks.remove { $1.account == account && $1.deviceKey == keyThumbprint }
  }

  func remove(of account: SubjectID, exceptDevice keyThumbprint: String?) -> Int {
    tables.unlocks.remove { $1.account == account && $1.deviceKey != keyThumbprint }
  }

  func bound(by qrSession: String) -> Unlock? {
    tables.unlocks.rows.values.first { $0.binding?.qrSession == qrSession }
  }

  func changeKey(ofBinding keyThumbprint: String, to other: String) {
    for (key, unlock) in tables.unlocks.rows where unlock.keyThumbprint == keyThumbprint && unlock.binding != nil {
      tables.unlocks[key] = nil
      var unlock = unlock
      unlock.keyThumbprint = other
      put(unlock)
    }
  }

  func changeDevice(_ keyThumbprint: String, to other: String) {
    for (key, unlock) in tables.unlocks.rows
    where unlock.deviceKey == keyThumbprint && unlock.keyThumbprint != keyThumbprint {
      tables.unlocks.change(key) { $0.deviceKey = other }
    }
  }

  func remove(ofKey keyThumbprint: String) { tables.unlocks.remove { $1.keyThumbprint == keyThumbprint } }

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

  func put(_ qrSession: String, session: SessionID, at now: Timestamp) {
    var row = tables.grants[qrSession] ?? QRGrantRecord(session: session, createdAt: now, isRevoked: false)
    row.session = session
    tables.grants[qrSession] = row
  }

  func lock(_ qrSession: String) -> QRGrantRecord? { tables.grants[qrSession] }

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

  func remove(offerOf session: SessionID) {
    tables.transfers.remove { $1.session == session && $1.redeemed == nil }
  }
}
