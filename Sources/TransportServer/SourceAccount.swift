internal import Callers
internal import Synchronization

/// What one source makes a server hold: an IPv4 address or IPv6 /64, or all that comes without an address. Known for as
/// long as a connection or a request of the source is.
final class SourceAccount: Sendable {
  let source: NetworkAddress?
  /// Calls that wait.
  let calls = Atomic<Int>(0)
  /// Bytes of requests and answers that wait, on connections of the source's own.
  let bytes = Atomic<Int>(0)
  /// Of a connection for which there is no place: nothing that waits has room here.
  let isTurnedAway: Bool
  private let table: SourceTable?

  /// - Parameter table: nil for an account that stands for itself.
  init(_ source: NetworkAddress? = nil, _ table: SourceTable? = nil, isTurnedAway: Bool = false) {
    self.source = source
    self.table = table
    self.isTurnedAway = isTurnedAway
  }

  deinit {
    table?.forget(source)
  }
}

/// The accounts of a server's sources. As many as there are connections and requests, at most.
final class SourceTable: Sendable {
  private struct Entry {
    weak var account: SourceAccount?
  }

  private let entries = Mutex<[NetworkAddress?: Entry]>([:])

  /// The account of an address's source.
  func account(of address: NetworkAddress?) -> SourceAccount {
    let source = address?.source
    return entries.withLock { entries in
      if let known = entries[source]?.account { return known }
      let account = SourceAccount(source, self)
      entries[source] = Entry(account: account)
      return account
    }
  }

  /// All of them. Whoever holds the last one of these must not hold the lock, so they leave it together.
  var all: [SourceAccount] {
    entries.withLock { $0.values.compactMap(\.account) }
  }

  fileprivate func forget(_ source: NetworkAddress?) {
    let successor = entries.withLock { entries in
      // Another one may have come since.
      let successor = entries[source]?.account
      if successor == nil { entries[source] = nil }
      return successor
    }
    // Let go of outside the lock, which its own end takes.
    withExtendedLifetime(successor) {}
  }
}
