internal import NIOCore

/// A connection that many share: a proxy's that names the client of each call. There turns, room and patience go by the client, so
/// that none waits for what another one asked for, as if each had come by itself.
///
/// What they cannot but share is the order in which their bytes come, and leave.
extension ServerConnection {
  var isShared: Bool { peer.proxy != nil && environment.configuration.proxies.field != .none }

  /// Whether the source is a client that the proxy names.
  private func isNamed(_ account: SourceAccount) -> Bool { isShared && account !== peer.account }

  /// What runs the handlers of a request, in turns with those of other sources.
  func executor(of request: ServerRequest) -> EventLoopTaskExecutor {
    guard isNamed(request.account) else { return executor }
    let own = executors.executor(of: .address(request.account.source)) { source in
      let made = EventLoopTaskExecutor(executor.turns, of: source, within: executor)
      // Its connection takes it away in time.
      made.hasRun = { [unowned self] in writeAnswers() }
      return made
    }
    // What is begun within the connection's turn goes on in it, unless others wait for what else is in there.
    own.turnEnd = executor.turns.isCrowded ? now : executor.turnEnd
    return own
  }

  /// Whether a call has waited for longer than its client's patience, or would for its source's turn. For whose source has little
  /// of what waits that is longer.
  func isLateHere(_ request: ServerRequest, _ patience: TimeAmount) -> Bool {
    let source = isNamed(request.account) ? .address(request.account.source) : executor.source
    let wait = max(ownLateness, executor.turns.wait(of: source))
    guard wait > max(patience, Limits.shortestWait) else { return false }
    return wait > Limits.longestWait || !environment.budget.hasLittle(request.account)
  }

  /// Whether so many handlers run here that no more of the source may begin.
  func hasTooManyHandlers(_ account: SourceAccount) -> Bool {
    guard streams.working > Limits.handlersPerConnection else { return false }
    guard isShared, streams.working <= 2 * Limits.handlersPerConnection else { return true }
    let own = streams.all.reduce(0) { $1.request?.account === account ? $0 + 1 : $0 }
    return own > Limits.handlersPerConnection / Limits.partOfSharedConnection
  }

  /// Whether the connection itself has room for more of a source's. Where many share it, who holds little there has, whatever
  /// others hold.
  func hasOwnRoom(_ account: SourceAccount) -> Bool {
    let most = environment.budget.bounds.connectionBytes
    guard (session?.bufferedBytes ?? 0) + heldBytes >= most else { return true }
    guard isShared else { return false }
    let held = streams.all.reduce(0) { $1.account === account ? $0 + $1.heldBytes : $0 }
    return held < most / Limits.partOfSharedConnection
  }

  /// Runs what is ready of the calls that were shed: what they give up is free now, and not when it is their sources' turn.
  func endShed(_ shed: [ServerStream]) {
    let end = eventLoop.now + Limits.turn
    executor.doNow(until: end)
    for source in isShared ? Set(shed.map { TurnSource.address($0.account.source) }) : [] where eventLoop.now < end {
      executors.known(source)?.doNow(until: end)
    }
  }
}

/// What runs the handlers of a connection's clients, for as long as there is something of theirs.
struct ClientExecutors {
  private struct Entry {
    weak var executor: EventLoopTaskExecutor?
  }

  private var entries: [TurnSource: Entry] = [:]
  /// With how many of them those are looked for that are gone.
  private var most = Limits.fewClients

  func known(_ source: TurnSource) -> EventLoopTaskExecutor? { entries[source]?.executor }

  mutating func executor(of source: TurnSource, orMake make: (TurnSource) -> EventLoopTaskExecutor)
    -> EventLoopTaskExecutor
  {
    if let known = known(source) { return known }
    if entries.count >= most {
      entries = entries.filter { $0.value.executor != nil }
      most = max(Limits.fewClients, 2 * entries.count)
    }
    let made = make(source)
    entries[source] = Entry(executor: made)
    return made
  }

  /// The connection is gone. What still runs has no answer to write.
  mutating func leave() {
    for entry in entries.values { entry.executor?.hasRun = nil }
    entries = [:]
  }
}
