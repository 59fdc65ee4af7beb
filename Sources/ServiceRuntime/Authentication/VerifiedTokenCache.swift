internal import Cryptography
internal import Synchronization

/// Tokens whose signature was verified, so that a repeated token costs a hash and not 92 µs.
///
/// Keyed by the hash: the cache holds no credential. Two generations bound it: when the young one is full it becomes
/// the old one, and what was not used since is gone.
final class VerifiedTokenCache: Sendable {
  struct Entry: Sendable {
    let claims: AccessTokenClaims
    /// The key that verified it. A key that is withdrawn takes its tokens with it.
    let keyID: String
  }

  private let capacity: Int
  private let state = Mutex(State())

  private struct State {
    var young: [[UInt8]: Entry] = [:]
    var old: [[UInt8]: Entry] = [:]
  }

  /// - Parameter capacity: entries of both generations together.
  init(capacity: Int) {
    self.capacity = capacity
  }

  /// The entry of a token's hash.
  subscript(hash: [UInt8]) -> Entry? {
    state.withLock { state in
      if let entry = state.young[hash] { return entry }
      guard let entry = state.old.removeValue(forKey: hash) else { return nil }
      insert(entry, hash, &state)
      return entry
    }
  }

  func insert(_ entry: Entry, hash: [UInt8]) {
    state.withLock { insert(entry, hash, &$0) }
  }

  var count: Int { state.withLock { $0.young.count + $0.old.count } }

  private func insert(_ entry: Entry, _ hash: [UInt8], _ state: inout State) {
    if state.young.count >= max(1, capacity / 2) {
      state.old = state.young
      state.young = [:]
    }
    state.young[hash] = entry
  }
}
