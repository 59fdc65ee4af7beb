internal import Callers
internal import HTTP2
internal import NIOCore
internal import Synchronization

/// What one source makes a server hold: an IPv4 address or IPv6 /64, or all that comes without an address. Known for as
/// long as a connection or a request of the source is.
final class SourceAccount: Sendable {
  let source: NetworkAddress?
  /// Calls that wait.
  let calls = Atomic<Int>(0)
  /// Those of them that only ask for the server's health.
  let essentialCalls = Atomic<Int>(0)
  /// Bytes of requests and answers that wait, on connections of the source's own.
  let bytes = Atomic<Int>(0)
  /// Whether it is a proxy's own, and so what waits on behalf of many.
  let isProxys = Atomic<Bool>(false)
  /// Of a connection for which there is no place: nothing that waits has room here.
  let isTurnedAway: Bool
  /// Calls that it has cancelled among others' calls, on the connections of a proxy.
  private let cancellations = Mutex(Budget(Limits.cancellations, now: .now()))
  /// Until when its calls are refused for that: nanoseconds of the clock of event loops, or 0.
  private let restsUntil = Atomic<UInt64>(0)
  /// Whether its table holds it for that.
  fileprivate let isRemembered = Atomic<Bool>(false)
  private let table: SourceTable?

  /// - Parameter table: nil for an account that stands for itself.
  init(_ source: NetworkAddress? = nil, _ table: SourceTable? = nil, isTurnedAway: Bool = false) {
    self.source = source
    self.table = table
    self.isTurnedAway = isTurnedAway
  }

  /// A call of the source was cancelled that had only just begun. Where there were too many its next calls are refused for a
  /// while. False where too many sources do that for it to be known of all.
  func cancelled(at now: NIODeadline) -> Bool {
    guard let table, table.remember(self, at: now) else { return false }
    // What is refused anyway costs nothing that would count.
    guard !rests, !cancellations.withLock({ $0.spend(now: now) }) else { return true }
    restsUntil.store((now + Limits.cancellationRest).uptimeNanoseconds, ordering: .relaxed)
    return true
  }

  /// A call of the source was answered: it may cancel one more, as on a connection of its own.
  func answered() {
    if isRemembered.load(ordering: .relaxed) { cancellations.withLock { $0.earn() } }
  }

  /// Whether it has hardly cancelled more than it may at any time.
  fileprivate func mayBeForgotten(at now: NIODeadline) -> Bool {
    !rests && cancellations.withLock { $0.left(now: now) } >= Limits.cancellations.burst / 2
  }

  /// Whether its calls are refused since it cancelled too many.
  var rests: Bool {
    let end = restsUntil.load(ordering: .relaxed)
    return end > 0 && NIODeadline.now().uptimeNanoseconds < end
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
  /// Who cancelled calls lately, so that this is known of them although nothing else of theirs is there any more.
  private let cancellers = Mutex<CircularBuffer<SourceAccount>>([])

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

  /// False where all places are taken, by sources of which there is something to know.
  fileprivate func remember(_ account: SourceAccount, at now: NIODeadline) -> Bool {
    if account.isRemembered.load(ordering: .relaxed) { return true }
    // What is let go of may be the last of an account, whose end takes the other lock.
    let (isRemembered, forgotten) = cancellers.withLock { cancellers -> (Bool, SourceAccount?) in
      guard !account.isRemembered.load(ordering: .relaxed) else { return (true, nil) }
      var forgotten: SourceAccount?
      if cancellers.count == Limits.rememberedCancellers {
        // Of most there is not: a look at a few of them, each time others.
        for _ in 0..<Limits.cancellersLookedAt where forgotten == nil {
          let first = cancellers.removeFirst()
          if first.mayBeForgotten(at: now) { forgotten = first } else { cancellers.append(first) }
        }
        guard let forgotten else { return (false, nil) }
        forgotten.isRemembered.store(false, ordering: .relaxed)
      }
      account.isRemembered.store(true, ordering: .relaxed)
      cancellers.append(account)
      return (true, forgotten)
    }
    withExtendedLifetime(forgotten) {}
    return isRemembered
  }

  /// The server has shut down.
  func forgetCancellers() {
    let all = cancellers.withLock { cancellers in
      defer { cancellers = [] }
      return cancellers
    }
    withExtendedLifetime(all) {}
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
