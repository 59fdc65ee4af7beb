import Callers
import Testing

@Suite("Shares of a queue")
struct QueueShareTests {
  @Test("Who would have at most a quarter of what another has, has little")
  func little() {
    let holders = (large: NetworkAddress("192.0.2.1"), small: NetworkAddress("192.0.2.2"))
    var share = QueueShare()
    #expect(!share.hasLittle(holders.small) && share.largest == 0)
    for count in 1...8 {
      share.entered(holders.large)
      #expect(share.hasLittle(holders.small) == (count >= 4) && !share.hasLittle(holders.large))
    }
    share.entered(holders.small)
    #expect(share.hasLittle(holders.small) && share.hasLittle(nil))
    share.entered(holders.small)
    #expect(!share.hasLittle(holders.small) && share.hasLittle(nil))
    for _ in 0..<8 { share.left(holders.large) }
    #expect(share.largest == 2 && !share.hasLittle(nil))
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
    backlog.hasRoomForFew = false
    #expect(gate.isShut(to: small))
    backlog.hasRoomForFew = true
    for _ in 0..<2 { backlog.entered(small) }
    #expect(gate.isShut(to: small) && !gate.isShut(to: nil))
    for _ in 0..<8 { backlog.left(large) }
    #expect(gate.isShut(to: nil))
  }
}
