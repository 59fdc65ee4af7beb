import Callers
import NIOCore
import NIOEmbedded
import Testing

@testable import TransportServer

@Suite("Whom a server asks to give up what it holds")
struct ConnectionTableTests {
  private final class Asked: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    var times = 0

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) { if event is ServerShed { times += 1 } }
  }

  private struct Peer {
    let channel = EmbeddedChannel()
    let asked = Asked()

    init(_ table: ConnectionTable, from source: NetworkAddress?) throws {
      try channel.pipeline.syncOperations.addHandler(asked)
      guard case .admitted = table.admit(channel, from: source) else { throw ChannelError.connectPending }
    }

    /// How often it was asked so far.
    var times: Int {
      channel.embeddedEventLoop.run()
      return asked.times
    }

    func end() throws { _ = try channel.finish(acceptAlreadyClosed: true) }
  }

  @Test("R50: connections that hold nothing do not hide those that do: all of a source are asked in turn")
  func inTurn() throws {
    let (table, source) = (ConnectionTable(capacity: 10_000), NetworkAddress("192.0.2.1"))
    let peers = try (0..<2 * Limits.shedConnections + 500).map { _ in try Peer(table, from: source) }
    let shed = ServerShed(calls: [], bytes: [.init(SourceTable().account(of: source), 1)])
    table.ask(shed)
    let newest = peers.suffix(Limits.shedConnections)
    #expect(newest.allSatisfy { $0.times == 1 })
    #expect(peers.dropLast(newest.count).allSatisfy { $0.times == 0 })
    // Newer ones, and some that go, change nothing for the others.
    let newer = try (0..<Limits.shedConnections).map { _ in try Peer(table, from: source) }
    for peer in newest { table.remove(peer.channel) }
    for _ in 0..<2 { table.ask(shed) }
    #expect(peers.allSatisfy { $0.times == 1 } && newer.allSatisfy { $0.times == 0 })
    table.ask(shed)
    #expect(newer.allSatisfy { $0.times == 1 })
    for peer in peers + newer { try peer.end() }
  }

  @Test("R50: of several sources none is passed over for how many connections another has")
  func several() throws {
    let table = ConnectionTable(capacity: 10_000)
    let sources = SourceTable()
    let addresses = (1...4).map { NetworkAddress("192.0.2.\($0)") }
    let peers = try addresses.map { address in
      try (0..<Limits.shedConnections).map { _ in try Peer(table, from: address) }
    }
    table.ask(ServerShed(calls: [], bytes: addresses.map { .init(sources.account(of: $0), 1) }))
    for row in peers { #expect(row.count { $0.times == 1 } == Limits.shedConnections / 4) }
    for peer in peers.joined() { try peer.end() }
  }
}
