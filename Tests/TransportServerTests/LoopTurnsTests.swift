import Callers
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import TransportServer

@Suite("Turns on an event loop") struct LoopTurnsTests {
  private final class Work: TurnTaker {
    let name: String
    let source: TurnSource
    var isBegun = false
    var left: Int
    let log: (String) -> Void
    /// When its last turn had to end.
    var end = NIODeadline.uptimeNanoseconds(0)

    init(_ name: String, _ turns: Int, of source: TurnSource = .address(nil), _ log: @escaping (String) -> Void) {
      self.name = name
      self.source = source
      left = turns
      self.log = log
    }

    func takeTurn(until end: NIODeadline) -> Bool {
      self.end = end
      log(name)
      left -= 1
      return left > 0
    }
  }

  @Test("Who has more to do than the others waits for itself, and nobody takes a turn before the sockets had theirs")
  func oneAfterTheOther() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    var order = ""
    for (name, count) in [("a", 4), ("b", 1), ("c", 2)] { turns.wait(Work(name, count) { order += $0 }) }
    loop.run()
    #expect(order == "")
    var rounds = 0
    while order.count < 7, rounds < 100 {
      loop.advanceTime(by: Limits.roundPause)
      rounds += 1
    }
    #expect(order == "abcacaa")
    #expect(rounds == 4)
  }

  @Test("R50: sources take turns, and so do the connections of each, and those that are new")
  func sources() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    let many = TurnSource.address(NetworkAddress("192.0.2.1"))
    let few = TurnSource.address(NetworkAddress("192.0.2.2"))
    var order = ""
    let work = { (name: String) in
      order += name
      loop.advanceTime(by: Limits.sourceTurn)
    }
    for name in ["a", "b", "c", "d"] { turns.wait(Work(name, 2, of: many, work)) }
    turns.wait(Work("x", 2, of: few, work))
    turns.worked(from: loop.now - Limits.promptWork, until: loop.now)
    for name in ["1", "2", "3", "4", "5", "6"] { turns.soonForNewcomer(of: many) { order += name } }
    turns.soonForNewcomer(of: few) { order += "9" }
    loop.run()
    #expect(order == "")
    for _ in 0..<100 { loop.advanceTime(by: Limits.roundPause) }
    #expect(order.filter(\.isLetter) == "abxcdxabcd")
    #expect(order.filter(\.isNumber) == "1293456")
  }

  /// Somebody who goes on with what is begun.
  private func begun(_ name: String, _ turns: Int = 1, _ log: @escaping (String) -> Void) -> Work {
    let work = Work(name, turns, log)
    work.isBegun = true
    return work
  }

  @Test("Who goes on with what is begun has turns before who has something new, and that is no prompt work")
  func begunFirst() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    var order = ""
    var isAdmitted = false
    turns.wait(Work("n", 1) { order += $0 })
    let many = (0..<4).map { _ in
      begun("b") {
        order += $0
        loop.advanceTime(by: Limits.promptWork)
      }
    }
    let first = begun("a", 2) { order += $0 }
    turns.wait(first)
    for work in many { turns.wait(work) }
    turns.later { isAdmitted = turns.admits(at: loop.now) }
    loop.run()
    let start = loop.now + Limits.roundPause
    loop.advanceTime(by: Limits.roundPause)
    // Time for one of them, and the others come in the rounds to come.
    #expect(order == "abn")
    #expect(isAdmitted)
    // Five of them share it.
    #expect(first.end == start + .nanoseconds(Limits.round.nanoseconds / 5))
    for _ in 0..<10 { loop.advanceTime(by: Limits.promptWork) }
    #expect(order == "abnbbba")
  }

  @Test("However many have something new, who goes on with what is begun has a whole turn")
  func oneBegun() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    for _ in 0..<1000 { turns.wait(Work("n", 1) { _ in }) }
    let one = begun("b") { _ in }
    turns.wait(one)
    loop.run()
    let start = loop.now + Limits.roundPause
    loop.advanceTime(by: Limits.roundPause)
    #expect(one.end == start + Limits.round)
  }

  @Test("What is begun goes on for three times as long as it waited, and no longer than a call may well wait")
  func timeToGoOn() {
    #expect(LoopTurns.timeToGoOn(after: .zero) == Limits.round)
    #expect(LoopTurns.timeToGoOn(after: .milliseconds(2)) == .milliseconds(6))
    #expect(LoopTurns.timeToGoOn(after: .seconds(2)) == Limits.longestGoingOn)
  }

  @Test("However long others go on with what is begun, all else has a part of that time in each round")
  func partsBehindTheBegun() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    let long = Limits.longestGoingOn
    let step = TimeAmount.nanoseconds(long.nanoseconds / Limits.partOfGoingOn / 4)
    var done: [String: Int] = [:]
    let piece = { (name: String) in
      done[name, default: 0] += 1
      loop.advanceTime(by: step)
    }
    turns.wait(begun("b") { _ in loop.advanceTime(by: long) })
    turns.worked(from: loop.now - Limits.promptWork, until: loop.now)
    for _ in 0..<100 {
      turns.wait(Work("new", 1, piece))
      turns.later { piece("chore") }
      turns.soonForNewcomer(of: .address(nil)) { piece("newcomer") }
    }
    loop.run()
    loop.advanceTime(by: Limits.roundPause)
    #expect(done == ["new": 4, "chore": 4, "newcomer": 4])
  }

  @Test("Who was sent something while it waited to go on waits with it behind what is begun")
  func begunNoMore() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    var order = ""
    let one = begun("n") { order += $0 }
    turns.wait(one)
    turns.wait(begun("b") { order += $0 })
    one.isBegun = false
    loop.run()
    loop.advanceTime(by: Limits.roundPause)
    #expect(order == "bn")
  }

  @Test("All are told something, some at a time, and not twice at the same time")
  func tellsAll() throws {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    let channels = (0..<3 * Limits.toldAtOnce).map { _ in EmbeddedChannel(loop: loop) }
    var told = 0
    for _ in 0..<2 {
      turns.tellAll(channels) { _ in
        told += 1
        if told % Limits.toldAtOnce == 0 { turns.wait(Work("a", 1) { _ in }) }
      }
    }
    loop.run()
    #expect(told == 0)
    for _ in 0..<20 { loop.advanceTime(by: Limits.roundPause) }
    #expect(told == channels.count)
    turns.tellAll(channels) { _ in told += 1 }
    loop.run()
    for _ in 0..<20 { loop.advanceTime(by: Limits.roundPause) }
    #expect(told == 2 * channels.count)
    for channel in channels { _ = try channel.finish(acceptAlreadyClosed: true) }
  }

  @Test("A turn is shorter the more wait for theirs, and never too short to get on")
  func shares() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    let start = NIODeadline.uptimeNanoseconds(1)
    #expect(turns.end(ofTurnFrom: start) == start + Limits.turn)
    turns.wait(Work("a", 1) { _ in })
    #expect(turns.end(ofTurnFrom: start) == start + .nanoseconds(Limits.turn.nanoseconds / 2))
    for _ in 0..<1000 { turns.wait(Work("b", 1) { _ in }) }
    #expect(turns.end(ofTurnFrom: start) == start + Limits.shortestTurn)
    loop.advanceTime(by: .seconds(1))
    #expect(turns.end(ofTurnFrom: start) == start + Limits.turn)
  }

  @Test("What all connections do at once is bounded until the loop has looked at its sockets")
  func promptWork() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    let work = { turns.promptly { loop.advanceTime(by: Limits.promptWork - .nanoseconds(1)) } }
    #expect(work())
    // A little is left, and who takes it may go on to the end of it.
    #expect(work())
    #expect(!work())
    var isAdmitted = false
    turns.wait(Work("a", 1) { _ in isAdmitted = turns.admits(at: loop.now) })
    #expect(!turns.admits(at: loop.now))
    loop.run()
    loop.advanceTime(by: Limits.roundPause)
    #expect(isAdmitted && turns.admits(at: loop.now))
    // Where nobody waits, time that the loop was idle does as well.
    turns.worked(from: loop.now - Limits.promptWork, until: loop.now)
    #expect(!turns.admits(at: loop.now))
    loop.advanceTime(by: .seconds(1))
    #expect(turns.admits(at: loop.now))
  }

  @Test("Work within work counts once, and is not stopped half-way")
  func nestedWork() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    let third = TimeAmount.nanoseconds(Limits.promptWork.nanoseconds / 3)
    var inner = false
    #expect(
      turns.promptly {
        loop.advanceTime(by: third)
        inner = turns.promptly { loop.advanceTime(by: third) }
        turns.worked(from: loop.now - third, until: loop.now)
      })
    #expect(inner && turns.admits(at: loop.now))
    turns.worked(from: loop.now - third, until: loop.now)
    turns.worked(from: loop.now - third, until: loop.now)
    #expect(!turns.admits(at: loop.now))
  }

  @Test("Chores are done at once while there is time, and otherwise in rounds, after turns, some in each")
  func chores() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    var order = ""
    func chore(_ name: String) {
      turns.soon {
        order += name
        loop.advanceTime(by: Limits.promptWork)
      }
    }
    for name in ["1", "2", "3"] { chore(name) }
    #expect(order == "1")
    turns.wait(
      Work("a", 2) {
        order += $0
        loop.advanceTime(by: Limits.round)
      })
    loop.run()
    #expect(order == "1")
    var rounds = 0
    while order.count < 5, rounds < 100 {
      loop.advanceTime(by: Limits.round)
      rounds += 1
    }
    #expect(order == "1a2a3")
    loop.advanceTime(by: .seconds(1))
    chore("4")
    #expect(order == "1a2a34")
  }

  private final class Record: Sendable {
    let steps = Mutex<[Int]>([])

    var all: [Int] { steps.withLock { $0 } }

    func add(_ step: Int) { steps.withLock { $0.append(step) } }
  }

  @Test("A task that asks for its next turn goes on at once while the turn lasts, and in the next one otherwise")
  func nextTurn() {
    let loop = EmbeddedEventLoop()
    let executor = EventLoopTaskExecutor(loop)
    let record = Record()
    var caughtUp = 0
    executor.caughtUp = { caughtUp += 1 }
    executor.turnEnd = loop.now + .milliseconds(1)
    Task.immediate(executorPreference: executor) {
      await executor.nextTurn()
      record.add(1)
      executor.turnEnd = executor.eventLoop.now
      await executor.nextTurn()
      record.add(2)
    }
    #expect(record.all == [1])
    #expect(executor.isBehind)
    loop.run()
    #expect(record.all == [1])
    loop.advanceTime(by: Limits.roundPause)
    #expect(record.all == [1, 2])
    #expect(!executor.isBehind)
    #expect(caughtUp == 1)
  }

  @Test("Every job is run once, in the order they came")
  func jobs() {
    let loop = EmbeddedEventLoop()
    let executor = EventLoopTaskExecutor(loop)
    let record = Record()
    for number in 0..<100 { spawn(number, executor, record) }
    #expect(record.all.isEmpty)
    loop.run()
    #expect(record.all == Array(0..<100))
  }

  @Test("Tasks that wait for their turn have it before who has something new")
  func tasksFirst() {
    let loop = EmbeddedEventLoop()
    let turns = LoopTurns(loop)
    loop.advanceTime(by: .seconds(1))
    let record = Record()
    turns.worked(from: loop.now - Limits.promptWork, until: loop.now)
    turns.wait(Work("n", 1) { _ in record.add(1) })
    let executor = EventLoopTaskExecutor(turns)
    spawn(2, executor, record)
    loop.run()
    #expect(record.all == [] && executor.isBehind)
    loop.advanceTime(by: Limits.roundPause)
    #expect(record.all == [2, 1])
  }

  private func spawn(_ number: Int, _ executor: EventLoopTaskExecutor, _ record: Record) {
    Task(executorPreference: executor) { record.add(number) }
  }
}
