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
    let table = ConnectionTable(capacity: 1000)
    let listener: Listener
    let arrivals: Arrivals
    let room: WaitingRoom
    private let gate = DispatchSemaphore(value: 0)
    private let entered: Entered

    private final class Entered: Sendable {
      let connected = Atomic<Int>(0)
      /// Those that the listener handed on, or refused.
      let received = Atomic<Int>(0)
      let addresses = Mutex<[SocketAddress?]>([])
      let descriptors = Mutex<[CInt]>([])
      /// Called as the first one is set up.
      let hook = Mutex<(@Sendable () -> Void)?>(nil)
    }

    /// - Parameter work: how long it takes to set one up.
    init(
      capacity: Int = 1000, shared: String? = nil, work: TimeAmount = .nanoseconds(10 * Limits.promptWork.nanoseconds)
    ) async throws {
      let loop = group.next()
      let room = WaitingRoom(capacity: capacity)
      let arrivals = Arrivals(LoopTurns(loop), table, room)
      (self.room, self.arrivals) = (room, arrivals)
      let entered = Entered()
      self.entered = entered
      listener = try Listener(host: "127.0.0.1", port: 0)
      let gate = gate
      await withCheckedContinuation { isClosed in
        loop.execute {
          isClosed.resume()
          gate.wait()
        }
      }
      listener.start { socket in
        defer { entered.received.add(1, ordering: .sequentiallyConsistent) }
        let address = socket.address
        let isShared = address?.ipAddress == shared
        guard room.enter(address?.networkAddress?.source, isShared: isShared) == .granted else { return }
        loop.execute {
          arrivals.arrived(socket, isShared: isShared) { descriptor in
            entered.addresses.withLock { $0.append(address) }
            // Until the end of the test: nobody hears of it.
            entered.descriptors.withLock { $0.append(descriptor) }
            let hook = entered.hook.withLock { hook in
              defer { hook = nil }
              return hook
            }
            hook?()
            // More than there is time for between two looks at the sockets.
            usleep(useconds_t(work.nanoseconds / 1000))
          }
        }
      }
    }

    func connect(from source: String) async throws -> any Channel {
      let client = try await ClientBootstrap(group: clients)
        .bind(to: SocketAddress(ipAddress: source, port: 0))
        .connect(to: listener.address).get()
      entered.connected.add(1, ordering: .sequentiallyConsistent)
      return client
    }

    /// Lets the loop go on, when all that connected have been accepted.
    func letGo() async throws {
      let connected = entered.connected.load(ordering: .sequentiallyConsistent)
      while entered.received.load(ordering: .sequentiallyConsistent) < connected {
        try await Task.sleep(for: .milliseconds(1))
      }
      gate.signal()
    }

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
      while room.count > 0 { try await Task.sleep(for: .milliseconds(1)) }
    }

    func end() async throws {
      await listener.close()
      for descriptor in entered.descriptors.withLock({ $0 }) { Glibc.close(descriptor) }
      try await clients.shutdownGracefully()
      try await group.shutdownGracefully()
    }
  }

  @Test("R50: those of a source that has many wait, and one of another is set up in its turn")
  func turns() async throws {
    let house = try await House()
    for _ in 0..<10 { _ = try await house.connect(from: House.many) }
    for _ in 0..<2 { _ = try await house.connect(from: House.few) }
    try await house.letGo()
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
      for _ in 0..<8 { _ = house.table.admit(EmbeddedChannel(), from: NetworkAddress(House.many)) }
      for _ in 0..<10 { _ = try await house.connect(from: House.many) }
      for _ in 0..<2 { _ = try await house.connect(from: House.few) }
      try await house.letGo()
      orders.append(try await house.entered(12).map { $0?.ipAddress == House.few ? "x" : "a" }.joined())
      try await house.end()
    }
    #expect(orders.contains("axaaxaaaaaaa"), "\(orders)")
  }

  @Test("A proxy's connections are anybody's: how few there are moves none of them ahead")
  func proxied() async throws {
    for _ in 0..<5 {
      let house = try await House(shared: House.few)
      for _ in 0..<8 { _ = house.table.admit(EmbeddedChannel(), from: NetworkAddress(House.many)) }
      for _ in 0..<10 { _ = try await house.connect(from: House.many) }
      for _ in 0..<2 { _ = try await house.connect(from: House.few) }
      try await house.letGo()
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
    try await house.letGo()
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
    try await house.letGo()
    let order = try await house.entered(7)
    #expect(order.contains { $0 == other.localAddress } && order.count == 7)
    for client in clients[6...] { try await client.closeFuture.get() }
    #expect(clients[..<6].allSatisfy(\.isActive) && other.isActive)
    // Who has been set up has left its place.
    try await house.settle()
    try await house.end()
  }

  @Test("R50: a proxy's connections have all places to wait in, and those beyond them wait outside: none is closed")
  func proxysPlaces() {
    let room = WaitingRoom(capacity: 8)
    let (proxy, other) = (NetworkAddress("192.0.2.1"), NetworkAddress("192.0.2.2"))
    for _ in 0..<8 { #expect(room.enter(proxy, isShared: true) == .granted) }
    #expect(room.enter(proxy, isShared: true) == .full && room.enter(other, isShared: false) == .full)
    for _ in 0..<2 { room.leave(proxy, isShared: true) }
    #expect(room.enter(other, isShared: false) == .granted && room.count == 7)
    // Nor is one closed of who has one already, while a proxy has the most.
    #expect(room.enter(other, isShared: false) == .full)
    #expect(room.enter(proxy, isShared: true) == .granted && room.count == 8)
    // Where others have most of them as well.
    let shared = WaitingRoom(capacity: 8)
    for _ in 0..<6 { #expect(shared.enter(other, isShared: false) == .granted) }
    #expect(shared.enter(other, isShared: false) == .refused)
    for _ in 0..<2 { #expect(shared.enter(proxy, isShared: true) == .granted) }
    #expect(shared.enter(proxy, isShared: true) == .full)
  }

  @Test("Those that wait are closed when the server ends, and those that arrive later")
  func ends() async throws {
    let house = try await House()
    var clients: [any Channel] = []
    for _ in 0..<10 { clients.append(try await house.connect(from: House.many)) }
    let before = house.group.next().makePromise(of: Int.self)
    house.whenArrived { [house] count in
      house.arrivals.closeAll()
      before.succeed(count)
    }
    try await house.letGo()
    // Mostly one, unless the machine stood still in between.
    let count = try await before.futureResult.get()
    for client in clients[count...] { try await client.closeFuture.get() }
    #expect(count >= 1 && clients[..<count].allSatisfy(\.isActive))
    #expect(try await house.entered(count).count == count)
    let late = try await house.connect(from: House.few)
    try await late.closeFuture.get()
    #expect(house.room.count == 0)
    try await house.end()
  }
}
