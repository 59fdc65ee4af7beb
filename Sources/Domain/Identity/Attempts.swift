import LatchkeyModel
import Storage

/// A try to prove something.
package struct SignInAttempt: Sendable, Equatable {
  /// SHA-256 of what was tried: of the account or, where there is none, of what a person typed, which may have been a
  /// secret where the identifier belongs.
  package var targetHash: [UInt8]
  /// The account that it leads to, if there is one.
  package var account: SubjectID?
  package var requester: Requester
  package var now: Timestamp

  package init(targetHash: [UInt8], account: SubjectID?, requester: Requester, now: Timestamp) {
    self.targetHash = targetHash
    self.account = account
    self.requester = requester
    self.now = now
  }

  /// What it counts for: a known device or network by itself, a stranger by network and with all others.
  fileprivate func shares(in rows: some IdentityTransaction) async throws(StorageError) -> [String] {
    let share = try await RequesterShare.find(requester, of: account, at: now, in: rows)
    return share.isStranger ? [share.name, RequesterShare.everybody] : [share.name]
  }
}

/// A try that was counted.
package struct CountedAttempt: Sendable, Equatable {
  package let attempt: SignInAttempt
  fileprivate let policy: AttemptPolicy
  /// What it counts for, the widest last. It is settled there, whatever is known of its device and network by then.
  fileprivate let shares: [String]
  /// What was counted before it, by what it counts for: all of it holds again when the try was not made after all.
  fileprivate let before: [String: CountedTries]
  /// How many of those were so long ago that they do not count any more.
  fileprivate let forgotten: [String: Int64]

  /// Counts more tries of the same, which go with it: at most so many, and as many as are free of the known device's or
  /// network's, or of all strangers'. A stranger's network may have to wait the longer for its next. Returns how many.
  func countMore(
    atMost most: Int64, in rows: some IdentityTransaction
  ) async throws(StorageError) -> Int64 {
    guard most > 0 else { return 0 }
    var counted: [(share: String, tries: CountedTries)] = []
    for share in shares {
      let tries =
        try await rows.attempts.lock(attempt.targetHash, share) ?? CountedTries(failures: 0, lastAt: attempt.now)
      counted.append((share: share, tries: tries))
    }
    // The last is the widest: it bounds what all may guess who count for it.
    guard let widest = counted.last else { return 0 }
    let more = min(most, policy.of(widest.share).free - widest.tries.failures)
    guard more > 0 else { return 0 }
    for (share, tries) in counted {
      let sum = CountedTries(failures: tries.failures + more, lastAt: max(tries.lastAt, attempt.now))
      try await rows.attempts.put(sum, attempt.targetHash, share)
    }
    return more
  }

  /// Takes those off again in the transaction that counted them: what they went with was right.
  func takeBack(_ more: Int64, in rows: some IdentityTransaction) async throws(StorageError) {
    guard more > 0 else { return }
    for share in shares {
      guard var tries = try await rows.attempts.lock(attempt.targetHash, share) else { continue }
      tries.failures -= more
      if tries.failures > 0 {
        try await rows.attempts.put(tries, attempt.targetHash, share)
      } else {
        try await rows.attempts.remove(attempt.targetHash, share)
      }
    }
  }

  /// What of a share's count the try leaves when it was not made. Those that came since stay, with their time.
  fileprivate func taken(offShare share: String, _ counted: CountedTries) -> CountedTries? {
    var left = counted
    left.failures -= 1
    if counted.lastAt == attempt.now, let before = before[share] {
      // As if it had not been: those that were forgotten at it are forgotten at the next.
      left.failures += forgotten[share] ?? 0
      left.lastAt = before.lastAt
    }
    return left.failures > 0 ? left : nil
  }
}

extension AttemptPolicy {
  /// What a share is held to.
  fileprivate func of(_ share: String) -> AttemptPolicy { share == RequesterShare.everybody ? together : self }
}

/// Counts a try before it is made, so that tries at the same time count as well, or says how long to wait.
package struct CountAttempt: IdentityCommand {
  package static let name = "count a try"

  package var attempt: SignInAttempt
  package var policy: AttemptPolicy

  package init(_ attempt: SignInAttempt, under policy: AttemptPolicy) {
    self.attempt = attempt
    self.policy = policy
  }

  /// Whether a secret may be tried now.
  package enum Outcome: Sendable, Equatable {
    case allowed(CountedAttempt)
    case wait(Duration)
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    var shares: [String] = []
    var before: [String: CountedTries] = [:]
    for share in try await attempt.shares(in: rows) {
      var counted = try await rows.attempts.lock(attempt.targetHash, share)
      // Of a clock that was set back since: its waits begin now, and not when it comes to that time again. Where others write
      // the rows it may be another's clock, and calls to both by turns would wait for neither.
      let isAhead = !rows.isShared && counted.map { $0.lastAt > attempt.now + Limits.attemptAhead } ?? false
      if isAhead { counted?.lastAt = attempt.now }
      if let counted, let wait = policy.of(share).wait(after: counted.failures, last: counted.lastAt, at: attempt.now) {
        if isAhead { try await rows.attempts.put(counted, attempt.targetHash, share) }
        return .wait(wait)
      }
      shares.append(share)
      before[share] = counted
    }
    let forgotten = before.filter { RequesterShare.isKnown($0.key) }.mapValues { longAgo($0) }
    for share in shares {
      let lastAt = before[share].map { max($0.lastAt, attempt.now) } ?? attempt.now
      let failures = (before[share]?.failures ?? 0) - (forgotten[share] ?? 0) + 1
      try await rows.attempts.put(CountedTries(failures: failures, lastAt: lastAt), attempt.targetHash, share)
    }
    return .allowed(
      CountedAttempt(attempt: attempt, policy: policy, shares: shares, before: before, forgotten: forgotten))
  }

  /// How many of a known device's or network's tries are so long ago by now: a person who mistypes now and then does not come
  /// to wait for it.
  private func longAgo(_ tries: CountedTries) -> Int64 {
    let quiet = max((attempt.now - tries.lastAt) / Limits.tryInMind, 0)
    return quiet < Double(tries.failures) ? Int64(quiet) : tries.failures
  }
}

/// What came of a try: one for which something was granted begins the count anew, one that was not made after all does not
/// count.
package struct SettleAttempt: IdentityCommand {
  package static let name = "settle a try"

  package enum Result: Sendable, Equatable {
    case succeeded
    case notMade
  }

  package var counted: CountedAttempt
  package var result: Result

  package init(_ counted: CountedAttempt, _ result: Result) {
    self.counted = counted
    self.result = result
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    let target = counted.attempt.targetHash
    for share in counted.shares {
      switch result {
      case .succeeded: try await rows.attempts.remove(target, share)
      case .notMade:
        guard let tries = try await rows.attempts.lock(target, share) else { continue }
        if let left = counted.taken(offShare: share, tries) {
          try await rows.attempts.put(left, target, share)
        } else {
          try await rows.attempts.remove(target, share)
        }
      }
    }
  }
}

extension SettleAttempt {
  /// Gives a try back at which nothing could be looked at because of an error. Nil where the error may say what was
  /// tried: of a wrong secret more is written down than of a right one, and where there is no room for that each guess
  /// would be answered by it, and free. Such a try stays counted.
  package init?(_ counted: CountedAttempt, after error: StorageError) {
    switch error.fault {
    case .overloaded, .cancelled, .closed, .unavailable: self.init(counted, .notMade)
    case .constraint, .superseded, .outcomeUnknown, .full, .corrupt, .newerSchema, .olderSchema, .oldInstances,
      .forbidden, .otherCell, .misuse:
      return nil
    }
  }
}
