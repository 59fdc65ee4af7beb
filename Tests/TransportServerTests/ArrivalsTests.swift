import Callers
import Dispatch
import Glibc
import NIOCore
import NIOEmbedded
import NIOPosix
import Synchronization
import Testing

@testable import TransportServer

@Suite("Connections that arrive at once") struct ArrivalsTests {
  /// A listener whose loop does nothing until it is let go, so that all that connect meanwhile arrive together.
  private final class House: Sendable {
    static let many = "127.0.0.2"
    static let few = "127.0.0.3"

    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let clients = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let budget = ServerBudget(ServerBudget.Bounds())
    let listener: any Channel
    let arrivals: Arrivals
    private let gate = DispatchSemaphore(value: 0)
    private let entered: Entered

    private final class Entered: Sendable {
      /// Nil for one whose other end has gone.
      let addresses = Mutex<[SocketAddress?]>([])
      /// Called as the first one is set up.
      let hook = Mutex<(@Sendable () -> Void)?>(nil)
    }

    /// - Parameter work: how long it takes to set one up.
    init(
      capacity: Int = 1000, proxies: TrustedProxies = TrustedProxies(),
      work: TimeAmount = .nanoseconds(10 * Limits.promptWork.nanoseconds)
    ) async throws {
      let loop = group.next()
      let arrivals = Arrivals(LoopTurns(loop), budget, proxies, capacity: capacity)
      self.arrivals = arrivals
      let entered = Entered()
      self.entered = entered
      listener = try await ServerBootstrap(group: group)
        .serverChannelOption(.maxMessagesPerRead, value: 64)
        .serverChannelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            let reception = Reception([ObjectIdentifier(loop): arrivals]) { channel in
              entered.addresses.withLock { $0.append(channel.remoteAddress) }
              let hook = entered.hook.withLock { hook in
                defer { hook = nil }
                return hook
              }
              hook?()
              // More than there is time for between two looks at the sockets.
              usleep(useconds_t(work.nanoseconds / 1000))
            }
            try channel.pipeline.syncOperations.addHandler(reception)
          }
        }
        .bind(host: "127.0.0.1", port: 0).get()
      let gate = gate
      await withCheckedContinuation { isClosed in
        loop.execute {
          isClosed.resume()
          gate.wait()
        }
      }
    }

    func connect(from source: String) async throws -> any Channel {
      try await ClientBootstrap(group: clients)
        .bind(to: SocketAddress(ipAddress: source, port: 0))
        .connect(to: #require(listener.localAddress)).get()
    }

    func letGo() { gate.signal() }

    /// Who was set up, in this order, when there are so many of them.
    func entered(_ count: Int) async throws -> [SocketAddress?] {
      while entered.addresses.withLock({ $0.count }) < count { try await Task.sleep(for: .milliseconds(1)) }
      return entered.addresses.withLock { $0 }
    }

    /// Has `work` done on the loop when all have arrived and some are set up, of which it hears how many.
    func whenArrived(_ work: @escaping @Sendable (Int) -> Void) {
      let loop = group.next()
      let entered = entered
      entered.hook.withLock { $0 = { loop.execute { work(entered.addresses.withLock { $0.count }) } } }
    }

    /// Returns when nobody waits.
    func settle() async throws {
      while try await group.next().submit({ [self] in arrivals.count }).get() > 0 {
        try await Task.sleep(for: .milliseconds(1))
      }
    }

    func end() async throws {
      try await listener.close()
      try await clients.shutdownGracefully()
      try await group.shutdownGracefully()
    }
  }

  @Test("R50: those of a source that has many wait, and one of another is set up in its turn")
  func turns() async throws {
    let house = try await House()
    for _ in 0..<10 { _ = try await house.connect(from: House.many) }
    for _ in 0..<2 { _ = try await house.connect(from: House.few) }
    house.letGo()
    let order = try await house.entered(12).map { $0?.ipAddress == House.few ? "x" : "a" }.joined()
    // The first found time, and one more has its turn with each that is new.
    #expect(order == "aaaxaxaaaaaa")
    try await house.end()
  }

  @Test("R50: whose source has far fewer connections than another's is set up at once, while there is some time for it")
  func few() async throws {
    var orders: [String] = []
    // The machine may take longer over it.
    for _ in 0..<20 {
      let house = try await House(work: Limits.promptWork + .microseconds(50))
      for _ in 0..<8 { _ = house.budget.table.admit(EmbeddedChannel(), from: NetworkAddress(House.many)) }
      for _ in 0..<10 { _ = try await house.connect(from: House.many) }
      for _ in 0..<2 { _ = try await house.connect(from: House.few) }
      house.letGo()
      orders.append(try await house.entered(12).map { $0?.ipAddress == House.few ? "x" : "a" }.joined())
      try await house.end()
    }
    #expect(orders.contains("axaaxaaaaaaa"), "\(orders)")
  }

  @Test("A proxy's connections are anybody's: how few there are moves none of them ahead")
  func proxied() async throws {
    let proxies = try TrustedProxies([#require(NetworkRange("\(House.few)/32"))], requiresHeader: true)
    for _ in 0..<5 {
      let house = try await House(proxies: proxies)
      for _ in 0..<8 { _ = house.budget.table.admit(EmbeddedChannel(), from: NetworkAddress(House.many)) }
      for _ in 0..<10 { _ = try await house.connect(from: House.many) }
      for _ in 0..<2 { _ = try await house.connect(from: House.few) }
      house.letGo()
      let order = try await house.entered(12).map { $0?.ipAddress == House.few ? "x" : "a" }.joined()
      #expect(order == "aaaxaxaaaaaa")
      try await house.end()
    }
  }

  @Test("One that its peer has reset while it waited is not set up")
  func reset() async throws {
    let house = try await House()
    var left: [SocketAddress] = []
    for number in 0..<20 {
      let client = try await house.connect(from: House.many)
      if number % 2 == 0 {
        try await #require(client as? any SocketOptionProvider).setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
        try await client.close()
      } else {
        left.append(try #require(client.localAddress))
      }
    }
    house.letGo()
    #expect(try await house.entered(10) == left)
    try await house.settle()
    #expect(try await house.entered(10) == left)
    try await house.end()
  }

  @Test("R50: a source alone leaves a quarter of the places to wait in, and what comes beyond that is closed")
  func closed() async throws {
    let house = try await House(capacity: 8)
    var clients: [any Channel] = []
    for _ in 0..<10 { clients.append(try await house.connect(from: House.many)) }
    let other = try await house.connect(from: House.few)
    house.letGo()
    // One found time, and six wait.
    let order = try await house.entered(8)
    #expect(order.contains { $0 == other.localAddress } && order.count == 8)
    for client in clients[7...] { try await client.closeFuture.get() }
    #expect(clients[..<7].allSatisfy(\.isActive) && other.isActive)
    try await house.end()
  }

  @Test("Those that wait are closed when the listener has gone, and when the server ends", arguments: [true, false])
  func ends(isServer: Bool) async throws {
    let house = try await House()
    var clients: [any Channel] = []
    for _ in 0..<10 { clients.append(try await house.connect(from: House.many)) }
    let before = house.group.next().makePromise(of: Int.self)
    house.whenArrived { [house] count in
      if isServer { house.arrivals.closeAll() } else { house.listener.close(promise: nil) }
      before.succeed(count)
    }
    house.letGo()
    // Mostly one, unless the machine stood still in between.
    let count = try await before.futureResult.get()
    for client in clients[count...] { try await client.closeFuture.get() }
    #expect(count >= 1 && clients[..<count].allSatisfy(\.isActive))
    if isServer { #expect(try await house.entered(count).count == count) }
    if isServer { try await house.listener.close() }
    try await house.clients.shutdownGracefully()
    try await house.group.shutdownGracefully()
  }
}
