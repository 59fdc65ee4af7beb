internal import Callers
internal import GRPC
internal import HTTP2
internal import NIOCore
internal import Synchronization

/// What all connections of a server use together, and whether there is room for more.
///
/// When there is none, the sources that hold more than their share make room for a call of one that holds less, and are
/// told so; their own calls are refused (max-min fairness, as ``FairShare``, by counters that no call has to lock).
///
/// A server that has no room says so at once, before it queues anything: a call that is refused costs a few
/// microseconds and its client knows when to come back; one that waits costs memory until nobody wants its answer.
package final class ServerBudget: Sendable {
  package struct Bounds: Sendable {
    /// Connections that are open. An idle one with TLS holds some 40 KiB, so this many stay below a gigabyte.
    package var connections = 20_000
    /// Connections that wait to be set up, beside those: as many as are in a fifth of a second.
    package var arrivals = 2048

    /// Calls whose request is not whole, or whose handler waits for something. A hundred thousand screens in a watch, of
    /// some 2 KiB each, and some to spare; were all of them long polls of some 14 KiB, they would stay below two
    /// gigabytes.
    package var calls = 120_000

    /// Bytes of requests and answers that wait for a reader, a window or a socket, on one connection: a full receive
    /// window, and a token and a full outbox for each of its streams, which an honest client may come to while it is slow. Where
    /// many share it, who holds little there is served beyond it.
    package var connectionBytes = 10 * 1024 * 1024

    /// The same for all connections together: a quarter of the smallest machine that one would run this on.
    package var bufferedBytes = 256 * 1024 * 1024

    package init() {}
  }

  let bounds: Bounds
  private let connections = Atomic<Int>(0)
  private let calls = Atomic<Int>(0)
  private let bufferedBytes = Atomic<Int>(0)
  private let refusedConnections = Atomic<Int>(0)
  private let refusedCalls = Atomic<Int>(0)
  let sources = SourceTable()
  let table: ConnectionTable
  private let shortage = Mutex(Shortage())
  /// The most calls of one source that waited when the server last looked.
  private let largest = Mutex((lastLook: NIODeadline.uptimeNanoseconds(0), calls: 0))
  private let turnedAway = Mutex(Budget(Limits.turnedAway, now: .now()))

  /// What was found when the server last looked at who holds how much.
  private struct Shortage {
    var lastLook: NIODeadline?
    /// Up to here a source may still have more; 0 where nobody has more than that.
    var callLevel = 0
    var byteLevel = 0
    /// Nobody has been asked for it yet.
    var shed: ServerShed?
    /// What connections were last asked for. They do so when they have time.
    var asked: ServerShed?
  }

  init(_ bounds: Bounds) {
    precondition(bounds.connectionBytes <= bounds.bufferedBytes, "one connection alone would be over the budget of all")
    self.bounds = bounds
    table = ConnectionTable(capacity: bounds.connections)
  }

  // MARK: Connections

  /// Whether there is so little room left that connections which do nothing should go.
  func connectionOpened() -> Bool {
    // A quarter is kept for those who come while the idle ones go.
    connections.add(1, ordering: .relaxed).newValue > bounds.connections / 4 * 3
  }

  func connectionRefused() {
    refusedConnections.add(1, ordering: .relaxed)
  }

  /// Whether a connection for which there is no place may be told so. There are few of them at a time: each costs what
  /// any connection does.
  func mayTurnAway() -> Bool {
    turnedAway.withLock { $0.spend(now: .now()) }
  }

  func connectionClosed() {
    connections.subtract(1, ordering: .relaxed)
  }

  // MARK: Calls

  /// A call waits for its request, or its handler for something.
  func callWaits(_ account: SourceAccount) { callsWait(1, account) }

  /// So many calls more of the source wait, or fewer.
  func callsWait(_ count: Int, _ account: SourceAccount) {
    calls.add(count, ordering: .relaxed)
    account.calls.add(count, ordering: .relaxed)
  }

  /// A handler that waited has returned.
  func callReturned(_ account: SourceAccount) {
    callsWait(-1, account)
  }

  // MARK: Bytes

  /// What a connection of the source holds has changed by so much.
  func buffered(_ bytes: Int, _ account: SourceAccount) {
    bufferedBytes.add(bytes, ordering: .relaxed)
    account.bytes.add(bytes, ordering: .relaxed)
  }

  /// Whether a source has far fewer calls that wait than another: it is not its doing that there is too much to do.
  func hasLittle(_ account: SourceAccount) -> Bool {
    let now = NIODeadline.now()
    var (most, isOld) = largest.withLock { largest in
      let isOld = now - largest.lastLook >= Limits.shedInterval
      if isOld { largest.lastLook = now }
      return (largest.calls, isOld)
    }
    if isOld {
      // Nobody waits for who looks. What waits at a proxy is many people's: it makes nobody else's little.
      let waiting = sources.all.lazy.filter { !$0.isProxys.load(ordering: .relaxed) }.map {
        $0.calls.load(ordering: .relaxed)
      }
      most = waiting.max() ?? 0
      largest.withLock { [most] largest in largest.calls = most }
    }
    return QueueShare.isLittle(account.calls.load(ordering: .relaxed), beside: most)
  }

  // MARK: Shedding

  /// Whether there is room for a new call of a source, be it because others, which hold more than their share, are made
  /// to give some up.
  func hasRoom(for account: SourceAccount) -> Bool {
    guard !account.isTurnedAway else { return false }
    let (calls, bytes) = (calls.load(ordering: .relaxed), bufferedBytes.load(ordering: .relaxed))
    guard calls >= bounds.calls || bytes >= bounds.bufferedBytes else { return true }
    return isGivenRoom(account, calls, bytes)
  }

  /// The same for more bytes of a call that has its place.
  func hasRoomForBytes(of account: SourceAccount) -> Bool {
    guard !account.isTurnedAway else { return false }
    let bytes = bufferedBytes.load(ordering: .relaxed)
    return bytes < bounds.bufferedBytes || isGivenRoom(account, 0, bytes)
  }

  private func isGivenRoom(_ account: SourceAccount, _ calls: Int, _ bytes: Int) -> Bool {
    look()
    let own = (calls: account.calls.load(ordering: .relaxed), bytes: account.bytes.load(ordering: .relaxed))
    let (most, shed) = shortage.withLock { shortage -> ((calls: Int, bytes: Int)?, ServerShed?) in
      if calls >= bounds.calls, own.calls >= shortage.callLevel { return (nil, nil) }
      if bytes >= bounds.bufferedBytes, own.bytes >= shortage.byteLevel { return (nil, nil) }
      let most = (shortage.callLevel, shortage.byteLevel)
      // Whoever is given room has it made, once a look.
      guard let shed = shortage.shed else { return (most, nil) }
      (shortage.shed, shortage.asked) = (nil, shed)
      return (most, shed)
    }
    if let shed { table.ask(shed) }
    guard let most else { return false }
    // What others give up takes a moment to be free: so far all of it may grow meanwhile, and no further. The second half of
    // that is for who has little, lest those who still come to their share take all of it. What is told of in one step is
    // little in any case, however many share.
    let hasFewCalls = own.calls <= 1 || Self.isLittle(own.calls, beside: most.calls)
    let hasFewBytes = own.bytes <= Limits.budgetStep || Self.isLittle(own.bytes, beside: most.bytes)
    let (moreCalls, moreBytes) = (bounds.calls / 4 + Limits.callsAhead, bounds.bufferedBytes / 4 + Limits.bytesAhead)
    return calls < bounds.calls + (hasFewCalls ? moreCalls : moreCalls / 2)
      && bytes < bounds.bufferedBytes + (hasFewBytes ? moreBytes : moreBytes / 2)
  }

  /// Where there was no shortage when the server last looked, nobody is known to have much, and nobody to have little.
  private static func isLittle(_ count: Int, beside level: Int) -> Bool {
    level != .max && QueueShare.isLittle(count, beside: level)
  }

  /// What connections were last asked to give up.
  var wantedBack: ServerShed? { shortage.withLock { $0.asked } }

  /// Looks at who holds how much, if that was a while ago.
  private func look() {
    let now = NIODeadline.now()
    let isTime = shortage.withLock { shortage in
      if let last = shortage.lastLook, now - last < Limits.shedInterval { return false }
      shortage.lastLook = now
      return true
    }
    guard isTime else { return }
    let accounts = sources.all
    let calls = Self.excess(accounts, bounds.calls) { $0.calls.load(ordering: .relaxed) }
    let bytes = Self.excess(accounts, bounds.bufferedBytes) { $0.bytes.load(ordering: .relaxed) }
    let shed = ServerShed(calls: calls.of, bytes: bytes.of)
    shortage.withLock { shortage in
      shortage.asked?.end()
      shortage.asked = nil
      (shortage.callLevel, shortage.byteLevel, shortage.shed) = (calls.level, bytes.level, shed)
    }
  }

  /// The most that each account may hold so that a part of the capacity is free, and who of the largest holds more.
  private static func excess(
    _ accounts: [SourceAccount],
    _ capacity: Int,
    _ held: (SourceAccount) -> Int
  ) -> (level: Int, of: [ServerShed.Excess]) {
    let holdings = accounts.map { (account: $0, held: held($0)) }.filter { $0.held > 0 }
    let aim = max(capacity - max(capacity / Limits.shedPart, 1), 1)
    let level = FairLevel.level(of: holdings.map(\.held), capacity: aim)
    let larger = holdings.filter { $0.held > level }.sorted { $0.held > $1.held }
    // Where all have as much, nobody is in another's place. Where there is no shortage everybody may have more: one that begins
    // before the next look is not yet anybody's doing.
    guard !larger.isEmpty else { return (level == .max ? .max : 0, []) }
    return (level, larger.prefix(Limits.shedSources).map { ServerShed.Excess($0.account, $0.held - level) })
  }

  /// How late what a source sent counts as. Others' wait for turns is not held against whose source has little of what waits, and
  /// its own less than others'.
  ///
  /// - Parameters:
  ///   - own: how long it has waited for others.
  ///   - refused: how much of that because calls were refused, which stays late.
  ///   - turn: how long the source waits for a turn now.
  func lateness(own: TimeAmount, refused: TimeAmount, turn: TimeAmount, of account: SourceAccount) -> TimeAmount {
    let wait = max(own, turn)
    guard wait > Limits.shortestWait else { return own }
    guard hasLittle(account) else { return wait }
    return own > Limits.longestWait ? own : max(refused, .nanoseconds(own.nanoseconds / Limits.patienceOfLittle))
  }

  /// What a call is told for which there is no room. The wait is spread, so that those who were refused together do
  /// not come back together.
  func refusal() -> RPCError {
    callRefused()
    return Self.refusal("the server has no room for this call now", .milliseconds(Int.random(in: 500...1500)))
  }

  /// What calls are told that came while there was too much to do: some errors with different waits.
  static var refusals: [RPCError] {
    stride(from: 500, through: 1500, by: 125).map { refusalOfLate(after: .milliseconds($0)) }
  }

  /// What one of them is told.
  static func refusalOfLate(after wait: Duration = .milliseconds(Int.random(in: 500...1500))) -> RPCError {
    refusal("the server has more to do than it can do in time", wait)
  }

  private static func refusal(_ message: String, _ wait: Duration) -> RPCError {
    RPCError(.resourceExhausted, message, reason: "OVERLOADED", retryAfter: wait)
  }

  /// A call was refused for which there was no room, or no time.
  func callRefused() {
    refusedCalls.add(1, ordering: .relaxed)
  }

  /// For metrics and tests.
  package struct Usage: Sendable, Equatable {
    package var connections: Int
    package var calls: Int
    package var bufferedBytes: Int
    /// Since the server began.
    package var refusedConnections: Int
    package var refusedCalls: Int
  }

  var usage: Usage {
    Usage(
      connections: connections.load(ordering: .relaxed),
      calls: calls.load(ordering: .relaxed),
      bufferedBytes: bufferedBytes.load(ordering: .relaxed),
      refusedConnections: refusedConnections.load(ordering: .relaxed),
      refusedCalls: refusedCalls.load(ordering: .relaxed)
    )
  }
}
