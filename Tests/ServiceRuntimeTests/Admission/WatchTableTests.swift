import LatchkeyModel
import Testing

@testable import ServiceRuntime

/// A thief's many watches, a farm's, and the owner's one.
@Suite("Watches share their places")
struct WatchTableTests {
  private static let places = WatchBounds(total: 20, perSubject: 16, perDevice: 8, perSession: 4)

  private static func subject(_ number: UInt8) -> SubjectID {
    SubjectID(from: RandomSource { [UInt8](repeating: number, count: $0) })
  }

  private static func session(_ number: UInt8) -> SessionID {
    SessionID(from: RandomSource { [UInt8](repeating: number, count: $0) })
  }

  private func holder(_ session: UInt8, device: String? = nil, subject: UInt8 = 1, source: String = "") -> WatchHolder {
    WatchHolder(subject: Self.subject(subject), session: Self.session(session), device: device, source: source)
  }

  @Test("R37: a session has four watches and a device eight, and leaving one makes room")
  func bounds() throws {
    var table = WatchTable<Int>(Self.places)
    var numbers: [UInt64] = []
    for place in 0..<8 {
      let entrance = table.enter(holder(UInt8(place / 4), device: "phone"), place)
      numbers.append(try #require(entrance.number))
    }
    for session in [0, 9] as [UInt8] {
      let refused = table.enter(holder(session, device: "phone"), 99)
      #expect(refused.number == nil)
    }
    let left = table.leave(numbers[0], of: Self.subject(1))
    let again = table.leave(numbers[0], of: Self.subject(1))
    #expect(left == 0 && again == nil && table.count == 7)
    let taken = table.enter(holder(0, device: "phone"), 8)
    #expect(taken.number != nil && taken.displaced == nil)
  }

  @Test("R37, R50: the device with the most makes room within a subject, its longest watch first")
  func largestDeviceLoses() throws {
    var table = WatchTable<Int>(Self.places)
    for place in 0..<16 {
      let entrance = table.enter(holder(UInt8(place / 4), device: "thief \(place / 8)"), place)
      _ = try #require(entrance.number)
    }
    var lost: [Int] = []
    for number in 0..<2 as Range<UInt8> {
      let entrance = table.enter(holder(20 + number), 100)
      lost.append(try #require(entrance.displaced))
    }
    #expect(Set(lost) == [0, 8] && table.count == 16)
    #expect(table.watchers(of: Self.subject(1)).count(where: { $0 == 100 }) == 2)
    #expect(table.watchers(of: Self.subject(2)).isEmpty)
  }

  @Test("R50: guests of one network that take every watch make room for anybody else's")
  func sourcesShare() {
    var table = WatchTable<UInt8>(Self.places)
    for number in 0..<20 as Range<UInt8> {
      guard case .entered = table.enter(holder(number, subject: number, source: "farm"), number) else {
        Issue.record("a free place was refused")
        return
      }
    }
    for number in 100..<110 as Range<UInt8> {
      guard case .inPlaceOf(let lost, _) = table.enter(holder(number, subject: number, source: "\(number)"), number)
      else {
        Issue.record("the many of one network kept another out")
        return
      }
      #expect(lost < 20)
    }
    #expect(table.count == 20)
    guard case .refused = table.enter(holder(50, subject: 50, source: "farm"), 50) else {
      Issue.record("the network with the most got more")
      return
    }
  }

  @Test("R50: when all have left, whether displaced or not, nobody holds anything")
  func everybodyLeaves() {
    var table = WatchTable<UInt8>(Self.places)
    var open: [UInt8: (UInt64, SubjectID)] = [:]
    var displaced = 0
    for number in 0..<100 as Range<UInt8> {
      let watching = holder(number, subject: number % 30, source: number < 20 ? "farm" : "\(number % 7)")
      let entrance = table.enter(watching, number)
      guard let place = entrance.number else { continue }
      if let lost = entrance.displaced {
        open[lost] = nil
        displaced += 1
      }
      open[number] = (place, watching.subject)
      #expect(table.count == open.count && table.count <= 20)
    }
    #expect(displaced > 10 && Set(table.watchers) == Set(open.keys))
    for (number, (place, subject)) in open {
      let left = table.leave(place, of: subject)
      #expect(left == number)
    }
    #expect(table.count == 0 && table.watchers.isEmpty)
    for number in 0..<30 as Range<UInt8> { #expect(table.watchers(of: Self.subject(number)).isEmpty) }
  }

  @Test("A service watches as one of the subject's devices, and is bounded by no session")
  func services() throws {
    var table = WatchTable<Int>(Self.places)
    let service = WatchHolder(service: "192.0.2.7", of: Self.subject(1))
    for place in 0..<8 {
      let entrance = table.enter(service, place)
      _ = try #require(entrance.number)
    }
    let refused = table.enter(service, 8)
    let other = table.enter(WatchHolder(service: "192.0.2.8", of: Self.subject(1)), 9)
    let owner = table.enter(holder(1), 10)
    #expect(refused.number == nil && other.number != nil && owner.number != nil)
  }
}

extension WatchTable.Entrance {
  /// Nil for who was refused.
  fileprivate var number: UInt64? {
    switch self {
    case .entered(let number), .inPlaceOf(_, let number): number
    case .refused: nil
    }
  }

  /// Whose place was taken.
  fileprivate var displaced: Watcher? {
    if case .inPlaceOf(let watcher, _) = self { watcher } else { nil }
  }
}
