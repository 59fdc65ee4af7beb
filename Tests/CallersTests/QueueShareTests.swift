import Callers
import Testing

@Suite("Shares of a queue")
struct QueueShareTests {
  @Test("Who would have at most a quarter of what another has, has little")
  func little() {
    let holders = (large: NetworkAddress("192.0.2.1"), small: NetworkAddress("192.0.2.2"))
    var share = QueueShare()
    #expect(!share.takesOfFew(holders.small))
    for count in 1...8 {
      share.entered(holders.large)
      #expect(share.takesOfFew(holders.small) == (count >= 4) && !share.takesOfFew(holders.large))
    }
    share.entered(holders.small)
    #expect(share.takesOfFew(holders.small) && share.takesOfFew(nil))
    share.entered(holders.small)
    #expect(!share.takesOfFew(holders.small) && share.takesOfFew(nil))
    for _ in 0..<8 { share.left(holders.large) }
    #expect(!share.takesOfFew(nil))
  }

  @Test("R50: a source that fills the line of the few keeps no third one out of it")
  func third() {
    let sources = (1...100).map { NetworkAddress("192.0.2.\($0)") }
    var share = QueueShare()
    for _ in 0..<100_000 { share.entered(sources[0]) }
    func fill(_ source: NetworkAddress?) -> Int {
      var taken = 0
      while share.enterOfFew(source) { taken += 1 }
      return taken
    }
    // Each takes all that it can get: half of what is left, about.
    #expect(fill(sources[1]) == 32)
    #expect(fill(sources[2]) == 16)
    #expect(fill(sources[3]) == 8)
    #expect(share.takesOfFew(sources[4]))
    for _ in 0..<32 { share.leftOfFew(sources[1]) }
    #expect(fill(sources[4]) > 8)
  }

  @Test("A door that is shut lets in who has far less waiting than another, while there is room for those")
  func door() {
    let (gate, backlog) = (CallGate(), Backlog())
    let (large, small) = (NetworkAddress("192.0.2.1"), NetworkAddress("192.0.2.2"))
    #expect(!gate.isShut(to: small))
    gate.shut(while: backlog)
    #expect(!gate.isShut(to: small))
    backlog.isLong = true
    #expect(gate.isShut(to: small), "nobody has more than another")
    for _ in 0..<8 { backlog.entered(large) }
    #expect(!gate.isShut(to: small) && gate.isShut(to: large) && gate.isShut)
    for _ in 0..<2 {
      let isTaken = backlog.enterOfFew(small)
      #expect(isTaken)
    }
    #expect(gate.isShut(to: small) && !gate.isShut(to: nil))
    for _ in 0..<8 { backlog.left(large) }
    #expect(gate.isShut(to: nil))
  }
}
