import LatchkeyModel
import Storage

// One-time codes, for identifiers that an account has or not: one for each of those that ask for them. A row is one
// requester's of an identifier; the one of everybody holds no code and counts what strangers were sent.

/// Puts a new code in the place of the requester's last one, unless it is too soon for another.
package struct IssueCode: IdentityCommand {
  package static let name = "issue a one-time code"

  package var code: OneTimeCode
  /// The account that the code would sign in to, if any.
  package var account: SubjectID?
  package var requester: Requester
  package var policy: OneTimeCodePolicy
  package var now: Timestamp

  package init(
    _ code: OneTimeCode, for account: SubjectID?, by requester: Requester, under policy: OneTimeCodePolicy,
    at now: Timestamp
  ) {
    self.code = code
    self.account = account
    self.requester = requester
    self.policy = policy
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case issued
    case wait(Duration)
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let share = try await RequesterShare.find(requester, of: account, at: now, in: rows)
    let own = Sends(try await rows.codes.lock(code.identifierHash, share.name), at: now)
    if let wait = own.wait(atMost: policy.sendsPerHour, apart: policy.resendAfter, at: now) { return .wait(wait) }
    if share.isStranger {
      let all = Sends(try await rows.codes.lock(code.identifierHash, RequesterShare.everybody), at: now)
      if let wait = all.wait(atMost: policy.strangersSendsPerHour, apart: .zero, at: now) { return .wait(wait) }
      let none = OneTimeCode(identifierHash: code.identifierHash, codeHash: [], handleHash: [])
      try await rows.codes.put(stored(none, RequesterShare.everybody, after: all, attempts: 0, elsewhere: 0))
    }
    try await rows.codes.put(
      stored(code, share.name, after: own, attempts: policy.attempts, elsewhere: policy.attemptsFromElsewhere))
    // Whoever's hour is over starts afresh, so nothing is lost with these.
    try await rows.codes.remove(sentBefore: now - .seconds(7200), limit: 4)
    return .issued
  }

  private func stored(
    _ code: OneTimeCode, _ share: String, after sends: Sends, attempts: Int64, elsewhere: Int64
  ) -> StoredCode {
    StoredCode(
      code: code, share: share, expiry: now + policy.lifetime, attemptsLeft: attempts, elsewhereLeft: elsewhere,
      sentAt: now, windowBeganAt: sends.windowBeganAt, sends: sends.count + 1)
  }
}

/// What was sent within an hour.
private struct Sends {
  var count: Int64 = 0
  var windowBeganAt: Timestamp
  var last: Timestamp?

  init(_ stored: StoredCode?, at now: Timestamp) {
    windowBeganAt = now
    guard let stored, now - stored.windowBeganAt < .seconds(3600), now >= stored.windowBeganAt else { return }
    (count, windowBeganAt, last) = (stored.sends, stored.windowBeganAt, stored.sentAt)
  }

  func wait(atMost most: Int64, apart distance: Duration, at now: Timestamp) -> Duration? {
    if let last, now >= last, now - last < distance { return distance - (now - last) }
    return count < most ? nil : .seconds(3600) - (now - windowBeganAt)
  }
}

/// A code did not arrive: it is void, and another may be asked for as if it had never been.
package struct WithdrawCode: IdentityCommand {
  package static let name = "withdraw a one-time code"

  package var code: OneTimeCode
  package var policy: OneTimeCodePolicy
  package var now: Timestamp

  package init(_ code: OneTimeCode, under policy: OneTimeCodePolicy, at now: Timestamp) {
    self.code = code
    self.policy = policy
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    guard var own = try await rows.codes.lockAll(of: code.identifierHash).first(where: { $0.code == code }) else {
      return
    }
    (own.attemptsLeft, own.elsewhereLeft, own.code.codeHash) = (0, 0, [])
    own.sends = max(own.sends - 1, 0)
    own.sentAt = min(own.sentAt, now - policy.resendAfter)
    try await rows.codes.put(own)
    guard RequesterShare.isStranger(own.share),
      var all = try await rows.codes.lock(code.identifierHash, RequesterShare.everybody)
    else { return }
    all.sends = max(all.sends - 1, 0)
    try await rows.codes.put(all)
  }
}

/// Whether there is a code that may be tried, with the handle that somebody says. It changes nothing, and is a command
/// because codes are looked at under their lock alone.
package struct FindCode: IdentityCommand {
  package static let name = "find a one-time code"

  package var identifierHash: [UInt8]
  package var handleHash: [UInt8]
  package var now: Timestamp

  package init(identifierHash: [UInt8], handleHash: [UInt8], at now: Timestamp) {
    self.identifierHash = identifierHash
    self.handleHash = handleHash
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Bool {
    try await rows.codes.lockAll(of: identifierHash).contains {
      $0.code.handleHash == handleHash && $0.expiry > now && $0.attemptsLeft > 0
    }
  }
}

/// Somebody presents a code; one that is not right costs a try. A right one stays until it is spent.
package struct PresentCode: IdentityCommand {
  package static let name = "present a one-time code"

  package var identifierHash: [UInt8]
  package var codeHash: [UInt8]
  /// Nil from who says none: then it is the code that the requester's device or network asked for.
  package var handleHash: [UInt8]?
  package var account: SubjectID?
  package var requester: Requester
  package var now: Timestamp
  /// The try that was counted for it. Without one a code from elsewhere is compared with one that was sent.
  package var counted: CountedAttempt?

  package init(
    identifierHash: [UInt8], codeHash: [UInt8], handleHash: [UInt8]?, account: SubjectID?, requester: Requester,
    at now: Timestamp
  ) {
    self.identifierHash = identifierHash
    self.codeHash = codeHash
    self.handleHash = handleHash
    self.account = account
    self.requester = requester
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case holds(OneTimeCode)
    case wrong(attemptsLeft: Int64)
    /// There is none, it expired, or its tries are used up.
    case void
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let live = try await rows.codes.lockAll(of: identifierHash).filter {
      $0.expiry > now && $0.attemptsLeft + $0.elsewhereLeft > 0
    }
    let share = try await RequesterShare.find(requester, of: account, at: now, in: rows).name
    let own = live.first { kept in handleHash.map { $0 == kept.code.handleHash } ?? (kept.share == share) }
    if var own {
      guard own.attemptsLeft > 0 else { return .void }
      if holds(own) { return .holds(own.code) }
      own.attemptsLeft -= 1
      try await rows.codes.put(own)
      return .wrong(attemptsLeft: own.attemptsLeft)
    }
    guard handleHash == nil else { return .void }
    return try await presentElsewhere(live.filter { $0.elsewhereLeft > 0 }, in: rows)
  }

  /// Who says no handle may have come to another network since. Wrong tries from there are counted apart, so that
  /// whoever asked for a code keeps theirs.
  private func presentElsewhere(
    _ others: [StoredCode], in rows: some IdentityTransaction
  ) async throws(StorageError) -> Outcome {
    guard let left = others.map(\.elsewhereLeft).max() else { return .void }
    // Each code that it is compared with makes a guess of it: whoever had twenty sent would have twenty for one try.
    var more: Int64 = 0
    if let counted { more = try await counted.countMore(atMost: Int64(others.count - 1), in: rows) }
    let compared = others.sorted(by: isFirst).prefix(1 + Int(more))
    // Taken before it is looked at, so that where nothing can be written that says nothing of the code.
    for var other in compared {
      other.elsewhereLeft -= 1
      try await rows.codes.put(other)
    }
    guard let match = compared.first(where: holds) else { return .wrong(attemptsLeft: left - 1) }
    for other in compared { try await rows.codes.put(other) }
    try await counted?.takeBack(more, in: rows)
    return .holds(match.code)
  }

  /// What a device or network asked for that the account is known on comes first, and of the rest what was sent last.
  private func isFirst(_ one: StoredCode, before other: StoredCode) -> Bool {
    let isStrangers = RequesterShare.isStranger(one.share)
    if isStrangers != RequesterShare.isStranger(other.share) { return !isStrangers }
    return (other.sentAt, one.share) < (one.sentAt, other.share)
  }

  /// Both are keyed hashes: where they differ tells nothing about the code.
  private func holds(_ kept: StoredCode) -> Bool { RedactedSecret(kept.code.codeHash) == RedactedSecret(codeHash) }
}
