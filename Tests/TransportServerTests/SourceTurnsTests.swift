import Callers
import NIOCore
import Testing

@testable import TransportServer

@Suite("Turns of sources") struct SourceTurnsTests {
  private static func source(_ number: Int) -> TurnSource { .address(.v4(UInt32(number))) }

  /// What waits, with the work that was done: a millisecond in each turn.
  private struct Loop {
    var turns = SourceTurns<String>(turn: .zero)
    var worked = TimeAmount.zero

    mutating func append(_ name: String, of source: Int) {
      turns.append(name, of: SourceTurnsTests.source(source), at: worked)
    }

    mutating func take(_ count: Int) -> String {
      var order = ""
      for _ in 0..<count {
        order += turns.popFirst(at: worked) ?? "-"
        worked = worked + .milliseconds(1)
      }
      return order
    }

    func wait(_ source: Int) -> TimeAmount { turns.wait(of: SourceTurnsTests.source(source), at: worked) }
  }

  @Test("R50: a source of few waits for two pieces of each other source, however much those have")
  func few() {
    var loop = Loop()
    for source in 1...3 {
      for _ in 0..<1000 { loop.append("a", of: source) }
    }
    #expect(loop.take(600) == String(repeating: "a", count: 600))
    for _ in 0..<100 {
      loop.append("x", of: 4)
      #expect(loop.take(7).contains("x"))
    }
  }

  @Test("A source with short pieces has more of them in its turn, until that is as long as two of others")
  func shortPieces() {
    var turns = SourceTurns<String>(turn: .microseconds(100))
    var worked = TimeAmount.zero
    for source in 1...2 {
      for number in 0..<9 { turns.append("\(source)\(number)", of: Self.source(source), at: worked) }
    }
    var order: [String] = []
    while let next = turns.popFirst(at: worked) {
      order.append(next)
      worked = worked + .microseconds(next.hasPrefix("1") ? 30 : 200)
    }
    let first = ["10", "11", "12", "13", "20", "21", "14", "15", "16", "17", "22", "23", "18"]
    #expect(order == first + (4..<9).map { "2\($0)" })
  }

  @Test("R50: whoever waits has a turn, though others keep coming and going")
  func rotating() {
    var loop = Loop()
    for _ in 0..<100 { loop.append("x", of: 0) }
    for source in 1...4 { loop.append("a", of: source) }
    var (turns, newcomer) = (0, 4)
    for _ in 0..<320 {
      if loop.take(1) == "x" {
        turns += 1
      } else {
        newcomer += 1
        loop.append("a", of: newcomer)
      }
    }
    #expect(turns == 100)
  }

  private final class Proxied {}

  @Test("R50: connections that a proxy's clients share have a turn each between sources, however many of those wait")
  func shared() {
    var turns = SourceTurns<String>(turn: .zero)
    var worked = TimeAmount.zero
    let connections = [Proxied(), Proxied()]
    let sources = connections.map { TurnSource.shared(ObjectIdentifier($0)) }
    for source in 1...20 {
      for _ in 0..<2 { turns.append("a", of: Self.source(source), at: worked) }
    }
    turns.append("x", of: sources[0], at: worked)
    turns.append("y", of: sources[1], at: worked)
    var (order, left) = ("", 10)
    while let next = turns.popFirst(at: worked) {
      order += next
      worked = worked + .milliseconds(1)
      guard next != "a", left > 2 else { continue }
      left -= 1
      turns.append(next, of: sources[next == "x" ? 0 : 1], at: worked)
    }
    #expect(order == String(repeating: "aaxy", count: 5) + String(repeating: "a", count: 30))
    withExtendedLifetime(connections) {}
  }

  @Test("R50: however many connections are shared, the next source has its turn after some of them")
  func manyShared() {
    var turns = SourceTurns<String>(turn: .zero)
    let connections = (0..<1000).map { _ in Proxied() }
    turns.append("a", of: Self.source(1), at: .zero)
    turns.append("a", of: Self.source(2), at: .zero)
    for connection in connections { turns.append("x", of: .shared(ObjectIdentifier(connection)), at: .zero) }
    let order = (0..<20).map { _ in turns.popFirst(at: .zero) ?? "-" }.joined()
    #expect(order == "a" + String(repeating: "x", count: 16) + "axx")
    withExtendedLifetime(connections) {}
  }

  @Test("How long a shared connection waits goes by the others that are, and how long a source does by sources")
  func waits() {
    var turns = SourceTurns<String>(turn: .zero)
    let connections = [Proxied(), Proxied()]
    let sources = connections.map { TurnSource.shared(ObjectIdentifier($0)) }
    turns.append("a", of: Self.source(1), at: .zero)
    turns.append("x", of: sources[0], at: .milliseconds(3))
    let now = TimeAmount.milliseconds(5)
    #expect(turns.wait(of: Self.source(2), at: now) == .milliseconds(5))
    #expect(turns.wait(of: sources[1], at: now) == .milliseconds(2))
    withExtendedLifetime(connections) {}
  }

  @Test("What comes goes in its order, where each has as much as a connection has")
  func order() {
    var loop = Loop()
    for source in 1...9 {
      loop.append("\(source)", of: source)
      if source % 2 == 0 { loop.append("'", of: source) }
    }
    #expect(loop.take(13) == "12'34'56'78'9")
    #expect(loop.turns.isEmpty && loop.take(1) == "-")
    for name in ["1", "2", "3"] { loop.append(name, of: 1) }
    #expect(loop.take(1) == "1")
    loop.append("4", of: 1)
    #expect(loop.take(4) == "234-" && loop.turns.count == 0)
  }

  @Test("A source waits as long as its own things do, and a new one as long as whoever is next has")
  func waitsOfShared() {
    var loop = Loop()
    #expect(loop.wait(1) == .zero)
    for source in 1...2 {
      for _ in 0..<10 { loop.append("a", of: source) }
    }
    _ = loop.take(8)
    #expect(loop.wait(1) == .milliseconds(8) && loop.wait(2) == .milliseconds(8))
    // The first one had its last turn four pieces ago.
    #expect(loop.wait(3) <= .milliseconds(4) && loop.wait(3) > .zero)
    // Many with one thing each wait for all those before them.
    var crowd = Loop()
    for source in 1...100 { crowd.append("c", of: source) }
    _ = crowd.take(50)
    #expect(crowd.wait(200) == .milliseconds(50))
  }
}
