internal import Callers
internal import NIOCore

/// The connections of one event loop that were accepted and not set up yet.
///
/// To set one up costs as much as some calls. Where they come faster than there is time for they wait behind the chores, by
/// turns of their sources, and one that its peer has reset meanwhile is dropped. Whose source has far fewer connections than
/// another's does not wait, for as long again as there is time for all, and where its address is no proxy's.
final class Arrivals: @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  private let turns: LoopTurns
  private let budget: ServerBudget
  private let proxies: TrustedProxies
  /// Who has how many of those that wait. What comes beyond that is closed.
  private var share: FairShare<NetworkAddress?>
  private var waiting: [ObjectIdentifier: any Channel] = [:]

  /// - Parameter capacity: how many may wait; of several sources none has more than stays free, and one alone leaves a quarter.
  init(_ turns: LoopTurns, _ budget: ServerBudget, _ proxies: TrustedProxies, capacity: Int) {
    self.turns = turns
    self.budget = budget
    self.proxies = proxies
    share = FairShare(capacity: capacity)
  }

  /// How many wait.
  var count: Int { waiting.count }

  /// Has `setUp` called, at once or when it is this connection's turn.
  func arrived(_ channel: any Channel, setUp: @escaping () -> Void) {
    // Who comes when others wait does so as well.
    if waiting.isEmpty, turns.promptly({ Self.enter(channel, setUp) }) { return }
    let address = channel.remoteAddress?.networkAddress
    let source = address?.source
    if !isProxy(address), budget.table.hasLittle(source), turns.beyond({ Self.enter(channel, setUp) }) { return }
    guard mayWait(source), share.take(for: source) == .granted else {
      budget.connectionRefused()
      return channel.close(promise: nil)
    }
    waiting[ObjectIdentifier(channel)] = channel
    turns.soonForNewcomer(of: .address(source)) { [self] in
      share.giveBack(of: source)
      // Unless all were closed.
      if waiting.removeValue(forKey: ObjectIdentifier(channel)) != nil { Self.enter(channel, setUp) }
    }
  }

  /// Closes those that wait. From anywhere.
  func end() async throws { try await turns.eventLoop.submit { [self] in closeAll() }.get() }

  func closeAll() {
    for channel in waiting.values { channel.close(promise: nil) }
    waiting = [:]
  }

  /// Whether its connections are anybody's.
  private func isProxy(_ address: NetworkAddress?) -> Bool { address.map { proxies.trusts($0) } ?? false }

  private func mayWait(_ source: NetworkAddress?) -> Bool {
    if share.mayKeep(for: source) { return true }
    return share.total == share.held(by: source) && share.total < share.capacity / 4 * 3
  }

  private static func enter(_ channel: any Channel, _ setUp: () -> Void) {
    // A channel without such an option is no socket's, and one that cannot tell has been closed.
    let error = try? channel.syncOptions?.getOption(.socketOption(.so_error))
    guard error == 0 || error == nil else { return channel.close(promise: nil) }
    setUp()
  }
}

/// Hands accepted connections to the arrivals of their event loops, and has them registered when they are set up.
final class Reception: ChannelInboundHandler {
  typealias InboundIn = Channel
  typealias InboundOut = Channel

  private let arrivals: [ObjectIdentifier: Arrivals]
  private let setUp: @Sendable (any Channel) throws -> Void
  private var context: ChannelHandlerContext?

  init(_ arrivals: [ObjectIdentifier: Arrivals], setUp: @escaping @Sendable (any Channel) throws -> Void) {
    self.arrivals = arrivals
    self.setUp = setUp
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let channel = unwrapInboundIn(data)
    let reception = NIOLoopBound(self, eventLoop: context.eventLoop)
    let setUp = setUp
    let listener = context.eventLoop
    guard let arrivals = arrivals[ObjectIdentifier(channel.eventLoop)] else { return channel.close(promise: nil) }
    let arrive = { @Sendable in
      arrivals.arrived(channel) {
        do { try setUp(channel) } catch { return channel.close(promise: nil) }
        if listener.inEventLoop { return reception.value.register(channel) }
        listener.execute { reception.value.register(channel) }
      }
    }
    if channel.eventLoop.inEventLoop { arrive() } else { channel.eventLoop.execute(arrive) }
  }

  /// Has the listener's end begin to read from it. After the listener nobody would.
  private func register(_ channel: any Channel) {
    guard let context else { return channel.close(promise: nil) }
    context.fireChannelRead(wrapInboundOut(channel))
  }
}
