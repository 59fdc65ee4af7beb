import Cryptography
import LatchkeyModel
import Testing

@testable import LatchkeyClient

@Suite struct SmallPartsTests {
  @Test("stored records come back as they were, and nothing else passes for one")
  func storedRecords() {
    let device = DeviceRecord(deviceID: "d", privateKey: "k\n", registration: .pending)
    #expect(DeviceRecord(device.encoded()) == device)
    let session = StoredSession(
      accessToken: "a",
      tokenType: "Bearer",
      refreshToken: "r",
      accessExpiresAt: Timestamp(secondsSinceEpoch: 5),
      clockSkew: .milliseconds(-3),
      sub: "s",
      isGuest: false,
      sid: "i",
      storageNamespace: "n",
      scope: "x y"
    )
    #expect(StoredSession(session.encoded()) == session)
    for damaged in ["", "{}", "[]", "null", #"{"device_id":1}"#] {
      #expect(DeviceRecord(Array(damaged.utf8)) == nil)
      #expect(StoredSession(Array(damaged.utf8)) == nil)
    }
  }

  @Test("proof of work has the bits that were asked for", arguments: [1, 5, 12] as [Int32])
  func proofOfWork(bits: Int32) throws {
    let solution = try ProofOfWork.solution(of: "challenge", leadingZeroBits: bits)
    let hash = SHA256Hash.hash(Array("challenge".utf8) + solution)
    #expect(ProofOfWork.leadingZeroBits(of: hash) >= bits)
    #expect(solution.count <= 32)
  }

  @Test("proof of work is not done without need, nor without bound")
  func proofOfWorkBounds() throws {
    #expect(try ProofOfWork.solution(of: "challenge", leadingZeroBits: 0) == [])
    #expect(throws: ClientError.self) {
      try ProofOfWork.solution(of: "challenge", leadingZeroBits: Limits.proofOfWorkBits + 1)
    }
    #expect(ProofOfWork.leadingZeroBits(of: [0, 0x1F]) == 11)
    #expect(ProofOfWork.leadingZeroBits(of: [0xFF]) == 0)
  }

  @Test("pauses grow, end, and are as long as the service asks")
  func backoff() {
    var backoff = Backoff()
    var pauses: [Duration] = []
    while let pause = backoff.next(atLeast: nil) { pauses.append(pause) }
    #expect(pauses.count == Limits.attempts)
    #expect(pauses.allSatisfy { $0 <= Limits.longestPause })
    #expect(pauses[0] >= Limits.firstPause / 2)
    var asked = Backoff()
    #expect(asked.next(atLeast: .seconds(7)) == .seconds(7))
  }

  @Test("records travel in messages within bounds, in order")
  func batches() {
    let small = (0..<250).map { Record(collection: "c", key: "\($0)", value: [1], updatedAt: 0) }
    let counts = DeviceClient.batches(of: small).map(\.records.count)
    #expect(counts == [100, 100, 50])
    let large = (0..<4).map {
      Record(collection: "c", key: "\($0)", value: .init(repeating: 1, count: 20_000), updatedAt: 0)
    }
    let batches = DeviceClient.batches(of: large)
    #expect(batches.map(\.records.count) == [1, 1, 1, 1])
    #expect(batches.flatMap(\.records).map(\.key) == ["0", "1", "2", "3"])
    #expect(DeviceClient.batches(of: []).isEmpty)
  }

  @Test(
    "an address is a host and a port",
    arguments: [
      ("127.0.0.1:7401", "127.0.0.1", 7401), ("[::1]:80", "::1", 80), ("login.example:65535", "login.example", 65535),
    ]
  )
  func addresses(text: String, host: String, port: Int) {
    let address = ServiceAddress(text)
    #expect(address == ServiceAddress(host: host, port: port))
    #expect(address?.description == text)
  }

  @Test(
    "anything else is no address",
    arguments: ["", ":1", "host", "host:", "host:0", "host:65536", "::1:80", "h:-1"]
  )
  func noAddresses(text: String) {
    #expect(ServiceAddress(text) == nil)
  }
}
