import Callers
import LatchkeyModel
import TestSupport
import Testing

@testable import ServiceRuntime

/// More keys come than there are places for.
@Suite struct RateLimiterFloodTests {
  private let start = Timestamp(secondsSinceEpoch: 1_790_000_000)

  /// A key of a row, or the row.
  private struct Seat: LimitedKey {
    let row: Int
    let number: Int?

    func wider(_ level: Int) -> Seat? { number == nil || level > 0 ? nil : Seat(row: row, number: nil) }
  }

  /// An IPv6 /64: the first /48 of 2001:db8::/32 has those below 65,536.
  private func subnet(_ number: Int) -> NetworkAddress { .v6(0x2001_0DB8_0000_0000 + UInt64(number), 0) }

  private func limiter() -> RateLimiter<NetworkAddress> {
    RateLimiter<NetworkAddress>(Rate(60, per: .seconds(3600)), capacity: 4)
  }

  /// How many events these have of sixty that each of them asks for.
  private func allowed(
    _ addresses: [NetworkAddress], _ limiter: RateLimiter<NetworkAddress>, at time: Timestamp
  ) -> Int {
    var allowed = 0
    for address in addresses {
      for _ in 0..<60 where limiter.spend(address, at: time) == nil { allowed += 1 }
    }
    return allowed
  }

  @Test("R26: networks that take all places keep nobody out, and the network of them all has no more than its places")
  func networks() throws {
    let limiter = limiter()
    let stranger = try #require(NetworkAddress("192.0.2.1"))
    for number in 0..<4 { #expect(limiter.spend(subnet(number), at: start) == nil) }
    #expect(limiter.spend(stranger, at: start) == nil)

    let flood = (0..<1000).map { subnet($0) }
    #expect(allowed(flood, limiter, at: start) <= 4 * 60)
    #expect(limiter.rememberedKeys <= 4)
    // The /48 counts as one: of its networks none has anything left, and then all of them one event.
    #expect(limiter.spend(subnet(60_000), at: start) == .seconds(60))
    #expect(allowed(flood, limiter, at: start + .seconds(60)) == 1)
    // Others have nearly all that they had before: the stranger, a newcomer, and the /48 beside it.
    let newcomer = try #require(NetworkAddress("198.51.100.7"))
    for other in [stranger, newcomer, subnet(65_536)] {
      #expect((50...60).contains(allowed([other], limiter, at: start + .seconds(60))))
    }
    // Once that is earned back its networks are counted by themselves.
    #expect(allowed([subnet(0), subnet(1)], limiter, at: start + .seconds(7200)) == 120)
  }

  @Test("R26: whoever floods from many IPv6 /48 is bounded by their /32, and from many IPv4 addresses by their /16")
  func widerNetworks() {
    let six = limiter()
    let sites = (0..<1000).map { subnet($0 << 16) }
    #expect(allowed(sites, six, at: start) <= 4 * 60)
    #expect(six.spend(subnet(5000 << 16), at: start) == .seconds(60))
    #expect(six.spend(.v6(0x2001_0DB9_0000_0000, 0), at: start) == nil)

    let four = limiter()
    let addresses = (0..<1000).map { NetworkAddress.v4(0x0A00_0000 + UInt32($0)) }
    #expect(allowed(addresses, four, at: start) <= 4 * 60)
    #expect(four.spend(.v4(0x0A00_FFFF), at: start) == .seconds(60))
    #expect(four.spend(.v4(0x0A01_0000), at: start) == nil)
  }

  @Test("R26: a network counts as one no longer than each of its keys would have waited, however it is used")
  func split() {
    let limiter = RateLimiter<NetworkAddress>(Rate(60, per: .seconds(3600)), capacity: 400)
    #expect(allowed((0..<1000).map { subnet($0) }, limiter, at: start) <= 400 * 60)
    #expect(limiter.spend(subnet(60_000), at: start) == .seconds(60))
    for minute in 1..<180 { _ = limiter.spend(subnet(minute), at: start + .seconds(60 * minute)) }
    #expect(allowed([subnet(7000), subnet(7001)], limiter, at: start + .seconds(3 * 3600)) == 120)
  }

  @Test("R26: of a crowd that fills a table the one that has most of it counts as one, and not a small one beside it")
  func largestCrowd() {
    let limiter = RateLimiter<NetworkAddress>(Rate(60, per: .seconds(3600)), capacity: 1024)
    // Sixteen subnets of each of sixty sites of a /32, and twenty addresses of a carrier's /16, have used up what they had.
    let large = (0..<60).flatMap { site in (0..<16).map { subnet(site << 16 + $0) } }
    let carrier = (0..<20).map { NetworkAddress.v4(0x0A00_0000 + UInt32($0)) }
    #expect(allowed(large + carrier, limiter, at: start) == 60 * 980)
    #expect(allowed((960..<1100).map { subnet($0 << 16) }, limiter, at: start) < 60 * 140)
    #expect(limiter.spend(.v4(0x0A00_FFFF), at: start) == nil)
  }

  @Test("R26: a crowd that has a twentieth of a large table is found, and nobody beside it is counted with it")
  func crowdOfMany() {
    let limiter = RateLimiter<NetworkAddress>(Rate(2, per: .seconds(3600)), capacity: 16_384)
    for number in 0..<16_384 {
      // All others are of a /32 each.
      let key = number % 20 == 0 ? subnet(number) : NetworkAddress.v6(UInt64(number) << 32, 0)
      for _ in 0..<2 { _ = limiter.spend(key, at: start) }
    }
    #expect(limiter.rememberedKeys == 16_384)
    #expect(limiter.spend(.v4(0x0A00_0000), at: start) == nil)
    #expect(limiter.rememberedKeys == 16_384 - 820 + 1)
    #expect(limiter.spend(subnet(60_001), at: start) == .seconds(1800))
    #expect(limiter.spend(subnet(65_536), at: start) == nil)
  }

  @Test("S15: accounts that take all places leave others their tries, and get none by being driven out")
  func accounts() {
    let limiter = RateLimiter<String>(Rate(5, per: .seconds(600)), capacity: 100)
    for _ in 0..<5 { #expect(limiter.spend("guesser", at: start) == nil) }
    for guest in 0..<200 { _ = limiter.spend("guest \(guest)", at: start) }
    #expect(limiter.spend("ada", at: start) == nil)
    // A thousand guests are enough to drive anybody out.
    for guest in 0..<1000 { _ = limiter.spend("guest \(guest)", at: start) }
    #expect(limiter.spend("guesser", at: start) != nil)
    #expect(limiter.spend("guesser", at: start + .seconds(119)) != nil)
  }

  @Test("R26: a clock that is set back keeps who comes anew for no longer than an event takes to be earned back")
  func clockSetBack() {
    let limiter = RateLimiter<String>(Rate(5, per: .seconds(50)), capacity: 10)
    for key in 0..<1000 { _ = limiter.spend("\(key)", at: start) }
    let early = start - .seconds(86_400)
    #expect(limiter.spend("new", at: early) == .seconds(10))
    #expect(limiter.spend("new", at: early + .seconds(10)) == nil)
  }

  @Test(
    "S15, R26: whatever comes in between, no key gets more than with room for all",
    arguments: 0..<20 as Range<UInt64>)
  func noMore(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let tight = RateLimiter<Seat>(Rate(5, per: .seconds(50)), capacity: 8)
    let ample = RateLimiter<Seat>(Rate(5, per: .seconds(50)))
    var time = start
    var served = 0
    var underWay: [Seat] = []
    for _ in 0..<5000 {
      time = time + .milliseconds(Int64.random(in: 0...400, using: &random))
      let seat = Seat(row: Int.random(in: 0..<3, using: &random), number: Int.random(in: 0..<12, using: &random))
      if tight.spend(seat, at: time) == nil {
        served += 1
        underWay.append(seat)
        #expect(ample.spend(seat, at: time) == nil, "seed \(seed)")
      }
      // Some events turn out not to count, sooner or later.
      if Int.random(in: 0..<10, using: &random) == 0, let refunded = underWay.popLast() {
        tight.refund(refunded, at: time)
        ample.refund(refunded, at: time)
      }
      #expect(tight.rememberedKeys <= 8, "seed \(seed)")
    }
    #expect(served > 100, "seed \(seed)")
  }
}
