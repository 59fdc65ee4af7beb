internal import Synchronization

/// What sources hold beyond their share, where others want it: a user event of connections that may have some of it.
struct ServerShed: Sendable {
  /// How much of one source's has still to go, on all connections that are asked.
  final class Excess: Sendable {
    let account: SourceAccount
    /// When the server looked.
    let amount: Int
    private let left: Atomic<Int>

    init(_ account: SourceAccount, _ amount: Int) {
      self.account = account
      self.amount = amount
      left = Atomic(amount)
    }

    /// Whether something that holds so much has to go.
    func take(_ amount: Int = 1) -> Bool {
      left.load(ordering: .relaxed) > 0 && left.subtract(amount, ordering: .relaxed).oldValue > 0
    }
  }

  /// By the accounts' identities.
  private var calls: [ObjectIdentifier: Excess] = [:]
  private var bytes: [ObjectIdentifier: Excess] = [:]
  private let over = Over()

  private final class Over: Sendable {
    let isOver = Atomic(false)
  }

  init(calls: [Excess], bytes: [Excess]) {
    for excess in calls { self.calls[ObjectIdentifier(excess.account)] = excess }
    for excess in bytes { self.bytes[ObjectIdentifier(excess.account)] = excess }
  }

  func calls(of account: SourceAccount) -> Excess? { calls[ObjectIdentifier(account)] }
  func bytes(of account: SourceAccount) -> Excess? { bytes[ObjectIdentifier(account)] }

  /// The server has looked again since: whoever has not given anything up yet need not any more.
  var isOver: Bool { over.isOver.load(ordering: .relaxed) }

  func end() { over.isOver.store(true, ordering: .relaxed) }

  /// Whose they are.
  var accounts: [SourceAccount] {
    calls.values.map(\.account) + bytes.filter { calls[$0.key] == nil }.values.map(\.account)
  }
}

/// The connection's place is another source's now, which has fewer: a user event of its channel.
struct ServerDisplacement: Sendable {}

/// Asks a connection to finish what it has begun and close: a user event of its channel.
struct ServerDrain: Sendable {}

/// Asks a connection that has done nothing for a while to close: others want its place.
struct ServerPressure: Sendable {}
