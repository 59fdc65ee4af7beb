internal import GRPC
internal import NIOCore

/// What a pool knows of its connections and of the calls that wait for one. A value: what a change asks for is answered
/// as actions, which the pool does without its lock.
extension ConnectionPool {
  enum Phase {
    case idle
    case connecting(ClientConnection, since: NIODeadline)
    case ready(ClientConnection, since: NIODeadline)
    case backingOff
  }

  struct Entry {
    var address: SocketAddress
    var phase = Phase.idle
    /// In a row: connections that never came up, or were of no use.
    var failures = 0

    /// The connection ended. Answers what the pause before the next is reckoned by; nil for none.
    ///
    /// A server that takes connections and ends them at once is as good as one that takes none; but it may do so once,
    /// as one does that is going while another takes its place.
    mutating func end(hasAnswered: Bool) -> (failures: Int, start: NIODeadline)? {
      switch phase {
      case .connecting(_, let start):
        failures += 1
        phase = .backingOff
        return (failures, start)
      case .ready(_, let start) where !hasAnswered && .now() - start < Limits.usefulConnection:
        failures += 1
        phase = failures > 1 ? .backingOff : .idle
        return failures > 1 ? (failures - 1, start) : nil
      case .ready, .idle, .backingOff:
        failures = 0
        phase = .idle
        return nil
      }
    }
  }

  enum Resolution {
    case none
    case running
    case done(NIODeadline)
    case failed
  }

  struct Waiter {
    var id: UInt64
    var waitForReady: Bool
    var continuation: CheckedContinuation<Result<ClientConnection, RPCError>, Never>
  }

  struct State {
    var entries: [Entry] = []
    var resolution = Resolution.none
    var resolutionFailures = 0
    var ready: [ClientConnection] = []
    /// Connections that finish their last calls.
    var draining: [ClientConnection] = []
    var next = 0
    var waiters: [Waiter] = []
    var lastWaiter: UInt64 = 0
    var lastError: RPCError?
    var keepalive: KeepalivePolicy?
    var isClosed = false
    var closeWaiters: [CheckedContinuation<Void, Never>] = []

    mutating func nextReady() -> ClientConnection? {
      guard !ready.isEmpty else { return nil }
      next = (next + 1) % ready.count
      return ready[next]
    }

    /// Starts what a call needs: the addresses if there are none, and a connection to each that rests.
    mutating func wakeIdle() -> [Action] {
      var actions: [Action] = []
      if case .none = resolution {
        resolution = .running
        actions.append(.resolve)
      }
      // Most often nothing is idle.
      for entry in entries {
        if case .idle = entry.phase { actions.append(.connect(entry.address)) }
      }
      return actions
    }

    var deadlineError: RPCError {
      let cause = lastError.map { " (\($0.message))" } ?? ""
      return RPCError(.deadlineExceeded, "the deadline passed while the call waited for a connection\(cause)")
    }

    /// Serves or fails the calls that wait, as far as the connections' states allow.
    mutating func settle() -> [Action] {
      guard !waiters.isEmpty else { return [] }
      if !ready.isEmpty {
        let served = waiters
        waiters = []
        return served.compactMap { waiter in nextReady().map { .resume(waiter, .success($0)) } }
      }
      guard let error = lastError, hasFailed else { return [] }
      let failing = waiters.filter { !$0.waitForReady }
      waiters.removeAll { !$0.waitForReady }
      return failing.map { .resume($0, .failure(error)) }
    }

    /// Whether there is nothing to hope for at the moment.
    private var hasFailed: Bool {
      switch resolution {
      case .none, .running: return false
      case .failed: return entries.isEmpty
      case .done: break
      }
      return entries.allSatisfy { if case .backingOff = $0.phase { true } else { false } }
    }

    /// All that there are, those that finish their last calls among them.
    var connections: [ClientConnection] {
      draining
        + entries.compactMap { entry in
          switch entry.phase {
          case .connecting(let connection, _), .ready(let connection, _): connection
          case .idle, .backingOff: nil
          }
        }
    }

    func index(of connection: ClientConnection) -> Int? {
      entries.firstIndex { entry in
        switch entry.phase {
        case .connecting(let candidate, _), .ready(let candidate, _): candidate === connection
        case .idle, .backingOff: false
        }
      }
    }

    mutating func finishClose() -> [Action] {
      guard isClosed, connections.isEmpty else { return [] }
      defer { closeWaiters = [] }
      return closeWaiters.map { .finishClose($0) }
    }

    /// After a connection was lost the name may mean other addresses.
    mutating func resolveAgain() -> [Action] {
      guard !isClosed, case .done(let last) = resolution, .now() - last >= Limits.resolutionInterval else {
        return []
      }
      resolution = .running
      return [.resolve]
    }

    /// Takes `addresses` for the target's: keeps what stays, lets go of what is gone.
    mutating func adopt(_ addresses: [SocketAddress]) -> [Action] {
      let addresses = addresses.prefix(Limits.addressesPerTarget)
      var actions: [Action] = []
      let old = entries
      entries = addresses.map { address in
        old.first { $0.address == address } ?? Entry(address: address)
      }
      for entry in old where !addresses.contains(entry.address) {
        switch entry.phase {
        case .connecting(let connection, _):
          actions.append(.shutDown(connection))
        case .ready(let connection, _):
          ready.removeAll { $0 === connection }
          draining.append(connection)
          actions.append(.shutDown(connection))
        case .idle, .backingOff:
          break
        }
      }
      return actions
    }
  }

  /// What a change asks for, done without the lock.
  enum Action {
    case connect(SocketAddress)
    case resolve
    case resume(Waiter, Result<ClientConnection, RPCError>)
    case shutDown(ClientConnection)
    case retryLater(SocketAddress, after: TimeAmount)
    case resolveLater(TimeAmount)
    case finishClose(CheckedContinuation<Void, Never>)
  }
}
