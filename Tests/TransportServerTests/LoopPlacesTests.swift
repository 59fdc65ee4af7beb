import Callers
import NIOCore
import NIOEmbedded
import Testing

@testable import TransportServer

@Suite("On which event loop a connection is served") struct LoopPlacesTests {
  private let loops = [EmbeddedEventLoop(), EmbeddedEventLoop()]
  private let crowdLoops = [EmbeddedEventLoop()]
  private let one = NetworkAddress("192.0.2.1")
  private let other = NetworkAddress("192.0.2.2")
  private let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

  private typealias Taken = (loop: any EventLoop, place: LoopPlaces.Place?)

  private func isCrowd(_ taken: Taken) -> Bool { crowdLoops.contains { $0 === taken.loop } }

  private func make(placesOfLoop: Int) -> LoopPlaces {
    LoopPlaces(loops, crowdLoops: crowdLoops, placesOfLoop: placesOfLoop)
  }

  private func take(_ count: Int, of source: NetworkAddress?, _ places: LoopPlaces, at now: NIODeadline) -> [Taken] {
    (0..<count).map { _ in places.take(for: source, isShared: false, at: now) }
  }

  @Test("A source alone has half of the places of everybody's loops, by turns, and the crowds' beyond them")
  func alone() {
    let places = make(placesOfLoop: 100)
    let taken = take(150, of: one, places, at: start)
    #expect(taken[..<100].allSatisfy { !isCrowd($0) } && taken[100...].allSatisfy(isCrowd))
    #expect(taken[..<100].count { $0.loop === loops[0] } == 50)
  }

  @Test("However many sources there are, each has some on everybody's loops")
  func some() {
    let places = make(placesOfLoop: 8)
    var kept: [Taken] = []
    defer { withExtendedLifetime(kept) {} }
    for number in 0..<100 {
      let taken = take(20, of: NetworkAddress("198.51.100.\(number)"), places, at: start)
      #expect(taken.map(isCrowd) == (0..<20).map { $0 >= Limits.placesOfSource })
      kept += taken
    }
  }

  @Test("A crowd stays one for a minute after it has fewer, and for as long as it has many")
  func memory() {
    let places = make(placesOfLoop: 8)
    var taken = take(20, of: one, places, at: start)
    taken = []
    #expect(taken.isEmpty && places.sources == 1)
    #expect(take(1, of: one, places, at: start + .seconds(59)).allSatisfy(isCrowd))
    #expect(take(1, of: other, places, at: start + .seconds(59)).allSatisfy { !isCrowd($0) })
    // The first look after a minute.
    taken = take(20, of: one, places, at: start + .seconds(60))
    #expect(taken.map(isCrowd) == (0..<20).map { $0 >= Limits.placesOfSource })
    // The next one finds it with as many.
    _ = take(1, of: other, places, at: start + .seconds(120))
    taken.removeSubrange(..<10)
    #expect(take(1, of: one, places, at: start + .seconds(179)).allSatisfy(isCrowd))
    #expect(take(1, of: one, places, at: start + .seconds(180)).allSatisfy { !isCrowd($0) })
    taken = []
    _ = take(1, of: other, places, at: start + .seconds(240))
    #expect(places.sources == 0)
  }

  @Test("A place is given back when nobody has it any more")
  func givenBack() {
    let places = make(placesOfLoop: 100)
    var taken = take(50, of: one, places, at: start)
    let others = take(50, of: other, places, at: start)
    #expect(places.sources == 2 && !others.contains(where: isCrowd))
    taken.removeFirst(40)
    // Ten and fifty of two hundred are taken: as many more as leave it what it would then have.
    taken += take(100, of: one, places, at: start)
    #expect(taken.count { !isCrowd($0) } == 75)
    taken = []
    // One that was a crowd, and one that is there.
    #expect(places.sources == 2)
    withExtendedLifetime(others) {}
  }

  @Test("A proxy's connections, and all where there are no loops for crowds, are on everybody's loops")
  func uncounted() {
    let places = make(placesOfLoop: 8)
    for _ in 0..<100 { #expect(!isCrowd(places.take(for: one, isShared: true))) }
    #expect(places.sources == 0)
    let shared = LoopPlaces(loops, crowdLoops: [], placesOfLoop: 8)
    let taken = take(100, of: one, shared, at: start)
    #expect(taken.count { $0.loop === loops[0] } == 50 && taken.allSatisfy { $0.place == nil })
  }
}
