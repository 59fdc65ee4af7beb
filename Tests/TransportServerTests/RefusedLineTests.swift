import Callers
import NIOCore
import NIOEmbedded
import Testing

@testable import TransportServer

@Suite("The line of connections of which calls were refused, by a clock that the test turns")
struct RefusedLineTests {
  private final class Member: LineMember {
    let source = TurnSource.address(nil)
    let number: Int
    private let log: Log
    var isOpen = true
    var isRead = true
    /// Before it says whether it is read.
    var onRead: () -> Void = {}

    init(_ number: Int, _ log: Log) {
      (self.number, self.log) = (number, log)
    }

    func lineEnds(_ wait: UnreadWait) -> Bool {
      guard isOpen else { return false }
      log.read.append((number, wait))
      onRead()
      return isRead
    }

    func hasCaughtUp() { log.caughtUp.append(number) }
  }

  private final class Log {
    var read: [(number: Int, wait: UnreadWait)] = []
    var caughtUp: [Int] = []
    var numbers: [Int] { read.map(\.number) }
  }

  private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

  private let log = Log()
  private let backlog = Backlog()
  private let gate = CallGate()

  init() {
    gate.shut(while: backlog)
    backlog.isLong = true
  }

  private static func at(_ time: TimeAmount) -> NIODeadline { start + time }

  /// The loop has worked all the time since the start, but for what it rested.
  private func look(_ line: RefusedLine, at now: NIODeadline, wait: TimeAmount, rested: TimeAmount = .zero) {
    line.look(at: now, worked: now - Self.start - rested) { _ in wait }
  }

  /// That was looked at just now.
  private func emptyLine() -> RefusedLine {
    let line = RefusedLine()
    look(line, at: Self.start, wait: .zero)
    return line
  }

  private func line(_ reasons: [RefusedLine.Reason]) -> RefusedLine {
    let line = emptyLine()
    for (number, reason) in reasons.enumerated() { line.append(Member(number, log), reason, at: Self.start) }
    return line
  }

  @Test("Where there is room the last one is read first, a few at a look, as late as it has waited")
  func lastFirst() {
    let line = line(Array(repeating: .late(.milliseconds(25)), count: 6))
    look(line, at: Self.at(.milliseconds(1)), wait: .milliseconds(12))
    #expect(log.numbers == [5, 4, 3, 2])
    line.append(Member(6, log), .late(.milliseconds(25)), at: Self.at(.milliseconds(1)))
    look(line, at: Self.at(.milliseconds(1) + Limits.looksAtLine - .nanoseconds(1)), wait: .zero)
    #expect(log.numbers == [5, 4, 3, 2], "it is not time for a look")
    look(line, at: Self.at(.milliseconds(2)), wait: .zero)
    #expect(log.numbers == [5, 4, 3, 2, 6, 1, 0])
    #expect(log.read.map(\.wait.any) == [1, 1, 1, 1, 1, 2, 2].map { .milliseconds($0) })
  }

  @Test("Where the loop has rested for most of the time since the last look more are read")
  func atRest() {
    let line = line(Array(repeating: .late(.milliseconds(25)), count: 60))
    look(line, at: Self.at(.milliseconds(1)), wait: .zero, rested: .microseconds(500))
    #expect(log.read.count == Limits.readFromLine)
    look(line, at: Self.at(.milliseconds(2)), wait: .zero, rested: .microseconds(500) + .microseconds(501))
    #expect(log.read.count == Limits.readFromLine + Limits.readFromLineAtRest)
    look(line, at: Self.at(.milliseconds(3)), wait: .zero, rested: .microseconds(1001))
    #expect(log.read.count == 2 * Limits.readFromLine + Limits.readFromLineAtRest)
  }

  @Test("Who would be refused again waits: for the turns of others, or for the door of its method")
  func room() {
    let line = line([.late(.milliseconds(750)), .late(.milliseconds(25)), .shut(gate, of: nil)])
    look(line, at: Self.at(.milliseconds(1)), wait: .milliseconds(375))
    #expect(log.numbers == [])
    look(line, at: Self.at(.milliseconds(2)), wait: .milliseconds(25))
    #expect(log.numbers == [0], "those behind it wait for something else")
    backlog.isLong = false
    look(line, at: Self.at(.milliseconds(3)), wait: .milliseconds(25))
    #expect(log.numbers == [0, 2])
    look(line, at: Self.at(.milliseconds(4)), wait: .milliseconds(12))
    #expect(log.numbers == [0, 2, 1])
  }

  @Test("After its pause a connection is read in any case, the first one first, and what it sent is late")
  func pauseIsOver() {
    let line = line([.late(.milliseconds(25)), .shut(gate, of: nil)])
    line.append(Member(2, log), .shut(gate, of: nil), at: Self.at(.nanoseconds(1)))
    look(line, at: Self.at(Limits.refusedPause - .nanoseconds(1)), wait: .seconds(1))
    #expect(log.numbers == [])
    look(line, at: Self.at(Limits.refusedPause + Limits.looksAtLine), wait: .seconds(1))
    #expect(log.numbers == [0, 1, 2])
    #expect(log.read.map(\.wait.any) == [Limits.refusedPause, .zero, .zero])
    #expect(log.read.map(\.wait.queued) == [.zero, Limits.refusedPause, Limits.refusedPause])
    #expect(log.read.map { $0.wait.queue === backlog } == [false, true, true])
  }

  @Test("Of thousands whose pauses end together some are read at each look")
  func many() {
    let line = line(Array(repeating: .shut(gate, of: nil), count: 3 * Limits.pausesEnded))
    for looks in 1...3 {
      let time = Limits.refusedPause + .nanoseconds(Int64(looks) * Limits.looksAtLine.nanoseconds)
      look(line, at: Self.at(time), wait: .zero)
      #expect(log.numbers == Array(0..<looks * Limits.pausesEnded))
    }
  }

  @Test("Whoever was read has caught up at the next look, and the line is empty after that")
  func caughtUp() {
    let line = line([.late(.seconds(1))])
    look(line, at: Self.at(.milliseconds(1)), wait: .zero)
    #expect(log.numbers == [0] && log.caughtUp == [] && !line.isEmpty)
    look(line, at: Self.at(.milliseconds(2)), wait: .zero)
    #expect(log.caughtUp == [0] && line.isEmpty)
  }

  @Test("Connections that have gone take nobody's place")
  func gone() {
    let line = emptyLine()
    for number in 0..<2 * Limits.readFromLine {
      let member = Member(number, log)
      member.isOpen = number < Limits.readFromLine
      line.append(member, .late(.seconds(1)), at: Self.start)
    }
    look(line, at: Self.at(.milliseconds(1)), wait: .zero)
    #expect(log.numbers == Array((0..<Limits.readFromLine).reversed()))
  }

  @Test("A look ends also when those that it has read come back as they are read", arguments: [true, false])
  func comesBack(isRead: Bool) {
    let line = emptyLine()
    let members = (0..<3).map { Member($0, log) }
    for member in members {
      member.isRead = isRead
      member.onRead = { [unowned member] in
        line.append(member, .late(.seconds(1)), at: Self.at(.milliseconds(1)))
      }
      line.append(member, .late(.seconds(1)), at: Self.start)
    }
    look(line, at: Self.at(.milliseconds(1)), wait: .zero)
    #expect(log.numbers.count == members.count && !line.isEmpty)
  }

  @Test("A loop that has nothing else to do looks at the line by itself, until it is empty")
  func byItself() {
    let loop = EmbeddedEventLoop()
    loop.advanceTime(by: .seconds(1))
    let turns = LoopTurns(loop)
    turns.leaveUnread(Member(0, log), .shut(gate, of: nil))
    loop.advanceTime(by: .milliseconds(100))
    #expect(log.numbers == [])
    backlog.isLong = false
    loop.advanceTime(by: 2 * Limits.looksAtLine)
    #expect(log.numbers == [0] && log.read.first?.wait.any == .zero)
    loop.advanceTime(by: 2 * Limits.looksAtLine)
    #expect(log.caughtUp == [0])
    turns.leaveUnread(Member(1, log), .late(.seconds(1)))
    loop.advanceTime(by: 2 * Limits.looksAtLine)
    #expect(log.numbers == [0, 1])
  }
}
