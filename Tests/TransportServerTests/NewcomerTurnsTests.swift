import Callers
import Testing

@testable import TransportServer

@Suite("Turns of new connections") struct NewcomerTurnsTests {
  private static func source(_ number: Int) -> TurnSource { .address(.v4(UInt32(number))) }

  private struct Door {
    var turns = NewcomerTurns<String>()

    mutating func append(_ name: String, of source: Int, count: Int = 1) {
      for _ in 0..<count { turns.append(name, of: NewcomerTurnsTests.source(source)) }
    }

    mutating func take(_ count: Int) -> String { (0..<count).map { _ in turns.popFirst() ?? "-" }.joined() }
  }

  @Test("R50: who had none waiting comes next with its first, however many others wait")
  func few() {
    var door = Door()
    for source in 1...200 { door.append("a", of: source, count: 20) }
    // Each has had two.
    #expect(door.take(400) == String(repeating: "a", count: 400))
    door.append("x", of: 0, count: 2)
    #expect(door.take(2).contains("x"))
    // Its second when all others have had their turns.
    #expect(!door.take(199).contains("x"))
    #expect(door.take(2).contains("x"))
  }

  @Test(
    "R50: who waits has half of the turns, however many come for the first time, and with how much", arguments: [1, 4])
  func known(pieces: Int) {
    var door = Door()
    door.append("x", of: 0, count: 100)
    #expect(door.take(4) == "xxxx")
    var (next, order) = (1, "")
    for _ in 0..<40 {
      for _ in 0..<3 {
        door.append("n", of: next)
        door.append("k", of: next, count: pieces - 1)
        next += 1
      }
      order += door.take(2)
    }
    #expect(order.filter { $0 == "n" }.count == 40, "\(order)")
    #expect(pieces > 1 || order.filter { $0 == "x" }.count == 40, "\(order)")
  }

  @Test("Who keeps coming is not new each time: it waits for its turn among those that wait")
  func regular() {
    var door = Door()
    for source in 1...9 { door.append("a", of: source, count: 100) }
    _ = door.take(36)
    var order = ""
    for _ in 0..<20 {
      door.append("x", of: 0)
      order += door.take(10)
    }
    // New, then once in each round.
    #expect(order.filter { $0 == "x" }.count == 20)
    #expect(!order.contains("xx") && !order.contains("xax"), "\(order)")
  }

  @Test("Nobody is known any more when nobody waits, and what waits comes out once, each source's in its order")
  func all() {
    var door = Door()
    #expect(door.turns.popFirst() == nil)
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<50 {
      var waiting: [Int: [String]] = [:]
      var taken: [String] = []
      for number in 0..<100 {
        let source = Int.random(in: 0..<7, using: &generator)
        door.append("\(source).\(number)", of: source)
        waiting[source, default: []].append("\(source).\(number)")
        if Bool.random(using: &generator), let name = door.turns.popFirst() { taken.append(name) }
      }
      while let name = door.turns.popFirst() { taken.append(name) }
      #expect(door.turns.isEmpty && door.turns.count == 0)
      for (source, names) in waiting { #expect(taken.filter { $0.hasPrefix("\(source).") } == names) }
      #expect(taken.count == 100)
      door.append("x", of: 0, count: 2)
      door.append("y", of: 1, count: 2)
      #expect(door.take(4) == "xxyy")
    }
  }
}
