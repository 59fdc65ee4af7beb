internal import Callers
internal import NIOCore
internal import Synchronization

/// Connections of a server that were accepted and are not set up yet: how many there may be, and whose.
///
/// What waits costs a file and some kilobytes of the kernel.
final class WaitingRoom: Sendable {
  private enum Holder: Hashable {
    case source(NetworkAddress?)
    case proxy(NetworkAddress?)

    var isProxy: Bool { if case .proxy = self { true } else { false } }
  }

  private let share: Mutex<FairShare<Holder>>

  /// - Parameter capacity: of several sources none has more than stays free, and one alone leaves a quarter. A proxy's
  ///   connections are anybody's: they have all places.
  init(capacity: Int) {
    share = Mutex(FairShare(capacity: capacity))
  }

  /// How many wait.
  var count: Int { share.withLock { $0.total } }

  enum Verdict {
    case granted
    /// The source has its part of the places. Of a proxy never.
    case refused
    /// The places are taken, by others or by those who come through the same proxy.
    case full
  }

  /// - Parameter isShared: the source is a proxy.
  func enter(_ source: NetworkAddress?, isShared: Bool) -> Verdict {
    share.withLock { share in
      let holder = isShared ? Holder.proxy(source) : .source(source)
      let held = share.held(by: holder)
      let isAlone = share.total == held && held < share.capacity / 4 * 3
      let mayEnter = isShared ? share.total < share.capacity : share.mayKeep(for: holder) || isAlone
      if mayEnter { return share.take(for: holder) == .granted ? .granted : .full }
      // Where a proxy has the most it is nobody's fault.
      return isShared || held == 0 || share.largest?.holder.isProxy == true ? .full : .refused
    }
  }

  func leave(_ source: NetworkAddress?, isShared: Bool) {
    share.withLock { $0.giveBack(of: isShared ? .proxy(source) : .source(source)) }
  }
}

/// The connections of one event loop that were accepted and not set up yet.
///
/// To set one up costs as much as some calls. Where they come faster than there is time for they wait behind the chores, by
/// turns of their sources, and one that its peer has reset meanwhile is dropped. Whose source has far fewer connections than
/// another's does not wait, for as long again as there is time for all, and where its address is no proxy's.
final class Arrivals: @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  private let turns: LoopTurns
  private let table: ConnectionTable
  private let room: WaitingRoom
  private var waiting: [ObjectIdentifier: (socket: AcceptedSocket, isShared: Bool)] = [:]
  private var hasEnded = false

  /// - Parameter room: has a place for each that arrives.
  init(_ turns: LoopTurns, _ table: ConnectionTable, _ room: WaitingRoom) {
    self.turns = turns
    self.table = table
    self.room = room
  }

  /// Has `setUp` called with the descriptor of the connection, at once or when it is this one's turn.
  ///
  /// - Parameter isShared: it is a proxy's, and so anybody's.
  func arrived(_ socket: AcceptedSocket, isShared: Bool, setUp: @escaping (CInt) -> Void) {
    let source = socket.address?.networkAddress?.source
    guard !hasEnded else { return leave(socket, source, isShared) }
    let enter = { [self] in
      leave(nil, source, isShared)
      if let descriptor = socket.take() { setUp(descriptor) }
    }
    // Who comes when others wait does so as well.
    if waiting.isEmpty, turns.promptly(enter) { return }
    if !isShared, table.hasLittle(source), turns.beyond(enter) { return }
    waiting[ObjectIdentifier(socket)] = (socket, isShared)
    turns.soonForNewcomer(of: .address(source)) { [self] in
      // Unless all were closed.
      if waiting.removeValue(forKey: ObjectIdentifier(socket)) != nil { enter() }
    }
  }

  private func leave(_ socket: AcceptedSocket?, _ source: NetworkAddress?, _ isShared: Bool) {
    room.leave(source, isShared: isShared)
    socket?.close()
  }

  /// Closes those that wait, and each that arrives later. From anywhere.
  func end() async throws { try await turns.eventLoop.submit { [self] in closeAll() }.get() }

  func closeAll() {
    hasEnded = true
    for (socket, isShared) in waiting.values { leave(socket, socket.address?.networkAddress?.source, isShared) }
    waiting = [:]
  }
}
