import LatchkeyModel
import Storage

/// How often a pattern may be tried.
enum PatternTries {
  /// A pattern that was wrong this often in a row is void: as many tries as a person needs who forgot it.
  static let most: Int64 = 10
}

/// Hands out the pattern of a device for one try, which is counted before it is made. Nil when there is none, or when its
/// tries are used up.
package struct TryPattern: IdentityCommand {
  package static let name = "try a pattern"

  package var keyThumbprint: String

  package init(of keyThumbprint: String) {
    self.keyThumbprint = keyThumbprint
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> FoundUnlock? {
    guard let (pattern, left) = try await rows.unlocks.lock(.pattern, keyThumbprint), left > 0 else { return nil }
    try await rows.unlocks.change(.pattern, keyThumbprint, triesLeft: left - 1)
    return FoundUnlock(unlock: pattern, mask: try await rows.identities.mask(of: pattern.account))
  }
}

/// What came of a try: a pattern that held has all its tries again, one that was not looked at has this one back.
package struct SettlePattern: IdentityCommand {
  package static let name = "settle a try of a pattern"

  package enum Result: Sendable, Equatable {
    case held
    case notTried
  }

  package var keyThumbprint: String
  package var result: Result

  package init(of keyThumbprint: String, _ result: Result) {
    self.keyThumbprint = keyThumbprint
    self.result = result
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    guard let (_, left) = try await rows.unlocks.lock(.pattern, keyThumbprint) else { return }
    switch result {
    // Also where this was the last try: whoever knows the pattern was handed it while it was not void.
    case .held: try await rows.unlocks.change(.pattern, keyThumbprint, triesLeft: PatternTries.most)
    case .notTried:
      if left < PatternTries.most { try await rows.unlocks.change(.pattern, keyThumbprint, triesLeft: left + 1) }
    }
  }
}
