import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage
import Synchronization
import Testing

@testable import QRSessionService

@Suite("C1: several instances serve one another's codes")
struct InstancesTests {
  private func pair(
    _ store: CountingStore = CountingStore(), _ change: (inout QRSettings) -> Void = { _ in }
  ) async throws -> (Harness, Harness) {
    let first = try await Harness.instance(1, over: store, change)
    return (first, try await Harness.instance(2, over: store, beside: first, change))
  }

  @Test("C1: a code is issued on one, and polled, scanned, confirmed and redeemed on others, once")
  func anyInstance() async throws {
    let store = CountingStore()
    let (first, second) = try await pair(store)
    let third = try await Harness.instance(3, over: store, beside: first)
    let issued = try await first.issue()
    #expect(try await second.poll(issued).state == .pending)
    let scanned = try await third.scan(issued)
    try await second.confirm(scanned, checkCode: issued.checkCode)
    let tokens = try await third.poll(issued, verifier: Harness.verifier).tokens
    #expect(tokens != nil)
    for harness in [first, second, third] {
      try await harness.hear()
      #expect(try await harness.poll(issued, verifier: Harness.verifier).tokens == tokens)
    }
    #expect(first.grants.issuedCount == 1)
    first.clock.move(by: .seconds(31))
    for harness in [first, second, third] {
      let error = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
      #expect(error == .alreadyUsed)
    }
    #expect(first.grants.state.withLock { $0.alive }.isEmpty)
  }

  @Test("S5: forty polls on two instances at once make one grant, and all get it")
  func oneGrant() async throws {
    let (first, second) = try await pair()
    let issued = try await first.confirmed()
    try await second.hear()
    let tokens = try await withThrowingTaskGroup(of: String.self) { group in
      for number in 0..<40 {
        let harness = number % 2 == 0 ? first : second
        group.addTask {
          try await harness.poll(issued, verifier: Harness.verifier).tokens?.accessToken ?? ""
        }
      }
      return try await group.reduce(into: Set<String>()) { $0.insert($1) }
    }
    #expect(tokens == ["token-1"])
    #expect(first.grants.state.withLock { Array($0.alive.values) } == ["token-1"])
  }

  @Test("S3: an answer that is stored is opened by its own verifier and session alone")
  func sealedAnswers() throws {
    func proof(_ text: String) -> RedeemProof {
      let bytes = Array(text.utf8)
      return RedeemProof(verifier: QRSessionAPI.digest(bytes), text: bytes, clientID: nil, signature: nil)
    }
    let random = RandomSource { SecureRandom.bytes($0) }
    let session = QRSessionID(instance: 1, from: random)
    let grant = RedeemedGrant(
      tokens: CommonV1.TokenSet(accessToken: "secret", tokenType: "Bearer"),
      subject: CommonV1.Subject(sub: "ada"), profile: nil, storageNamespace: "n")
    let answer = try proof(Harness.verifier).seal(grant, of: session)
    #expect(proof(Harness.verifier).open(answer, of: session) == grant)
    #expect(proof(Harness.challenge).open(answer, of: session) == nil)
    #expect(proof(Harness.verifier).open(answer, of: QRSessionID(instance: 1, from: random)) == nil)
    #expect(!String(decoding: answer, as: UTF8.self).contains("secret"))
  }

  @Test("S5: an instance that dies over a redemption holds nobody up for longer than its turn")
  func abandonedTurn() async throws {
    let store = CountingStore()
    let (first, second) = try await pair(store)
    let issued = try await first.confirmed()
    let id = try await first.stored(issued).id
    let dead = [UInt8](repeating: 9, count: 16)
    #expect(await store.memory.takeRedemption(of: id, by: dead, for: .milliseconds(300)) != nil)
    #expect(try await second.poll(issued, verifier: Harness.verifier).tokens != nil)
  }

  @Test("a grant that identity could not make is tried again at once, on another instance")
  func givenUp() async throws {
    let (first, second) = try await pair()
    let issued = try await first.confirmed()
    first.grants.fail(RPCError(.unavailable, "identity is away"))
    let error = await refusal { _ = try await first.poll(issued, verifier: Harness.verifier) }
    #expect(error?.code == .unavailable)
    #expect(try await second.poll(issued, verifier: Harness.verifier).tokens != nil)
  }

  @Test("a code that is cancelled on one instance while another redeems it leaves nothing alive")
  func cancelledMeanwhile() async throws {
    let (first, second) = try await pair()
    let issued = try await first.confirmed()
    first.grants.state.withLock { state in
      state.onIssue = {
        _ = try? await second.api.cancelSession(
          QRV1.CancelSessionRequest(deviceCode: issued.deviceCode), context: .screen())
      }
    }
    let error = await refusal { _ = try await first.poll(issued, verifier: Harness.verifier) }
    #expect(error == .cancelled)
    #expect(first.grants.state.withLock { $0.alive }.isEmpty)
  }

  @Test("a code is looked up once, however often and by however many at once it is polled")
  func oneLookUp() async throws {
    let store = CountingStore()
    let (first, second) = try await pair(store)
    let issued = try await first.issue()
    await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<50 {
        group.addTask { _ = try await second.poll(issued, waitMs: 1) }
      }
      // Polls that come too fast are told so; they have been answered from memory.
      while let result = await group.nextResult() {
        if case .failure(let error) = result { #expect((error as? RPCError)?.details.reason == "slow_down") }
      }
    }
    #expect(store.lookUps.withLock { $0 } == 1)
    #expect(second.api.table.count == 1)
  }

  @Test("made-up codes are looked up at a source's rate, and others' codes whatever comes from their network")
  func madeUpCodes() async throws {
    let store = CountingStore()
    let (first, second) = try await pair(store) { $0.unknownCodeRate = Rate(3, per: .seconds(60)) }
    let random = RandomSource { SecureRandom.bytes($0) }
    for _ in 0..<50 {
      var issued = QRV1.IssueSessionResponse()
      issued.deviceCode = PollSecret(from: random).text
      let error = await refusal { _ = try await second.poll(issued) }
      #expect(error == .unknownDeviceCode)
    }
    #expect(store.lookUps.withLock { $0 } == 3)
    for _ in 0..<20 {
      let issued = try await first.issue()
      #expect(try await second.poll(issued).state == .pending)
    }
    #expect(store.lookUps.withLock { $0 } == 23)
  }

  @Test("a code that was confirmed in its last second is redeemed where nobody met it, whatever else comes from there")
  func lastSecond() async throws {
    let (first, second) = try await pair { $0.unknownCodeRate = Rate(1, per: .seconds(3600)) }
    let issued = try await first.issue()
    first.clock.move(by: .seconds(119))
    try await first.confirm(try await first.scan(issued), checkCode: issued.checkCode)
    first.clock.move(by: .seconds(59))
    for _ in 0..<5 {
      var made = QRV1.IssueSessionResponse()
      made.deviceCode = PollSecret(from: RandomSource { SecureRandom.bytes($0) }).text
      #expect(await refusal { _ = try await second.poll(made) } == .unknownDeviceCode)
    }
    #expect(try await second.poll(issued, verifier: Harness.verifier).tokens != nil)
  }

  @Test("S2: a device code is this installation's until its time is over, and no other text is")
  func deviceCodes() throws {
    let random = RandomSource { SecureRandom.bytes($0) }
    let now = Timestamp(secondsSinceEpoch: 1_790_000_000)
    let codes = DeviceCodes(secret: random.bytes(32))
    let code = codes.draw(from: random, expires: now + .seconds(120))
    #expect(code.text.utf8.count == 43)
    #expect(codes.draw(from: random, expires: now).bytes.prefix(20) != code.bytes.prefix(20))
    #expect(codes.isCurrent(code, at: now))
    #expect(codes.isCurrent(code, at: now + .seconds(120)))
    #expect(!codes.isCurrent(code, at: now + .seconds(122)))
    #expect(!DeviceCodes(secret: random.bytes(32)).isCurrent(code, at: now))
    for place in code.bytes.indices {
      var bytes = code.bytes
      bytes[place] ^= 1
      #expect(!codes.isCurrent(try #require(PollSecret(bytes: bytes)), at: now))
    }
  }

  @Test("a change that is stored while its code is looked up is shown")
  func changedOnArrival() async throws {
    let store = CountingStore()
    let (first, second) = try await pair(store)
    let issued = try await first.issue()
    store.beforeAnswer.withLock { hook in
      hook = {
        store.beforeAnswer.withLock { $0 = nil }
        _ = try? await first.scan(issued)
        try? await second.hear()
      }
    }
    #expect(try await second.poll(issued).state == .scanned)
  }

  @Test("C2: who waits on one instance hears of a change on another from the database, and who watches")
  func heard() async throws {
    let (first, second) = try await pair()
    let issued = try await first.issue()
    #expect(try await second.poll(issued).state == .pending)
    first.clock.move(by: .seconds(6))
    async let waiting = second.poll(issued, lastVersion: 1, waitMs: 25_000)
    while second.api.table.waiterCount == 0 { await Task.yield() }
    let scanned = try await first.scan(issued)
    try await second.hear()
    #expect(try await waiting.state == .scanned)
    try await first.confirm(scanned, checkCode: issued.checkCode)
    try await second.hear()
    #expect(try await second.poll(issued).state == .confirmed)
  }

  @Test("C2: who waits on one instance is woken by another, though no change is read from the database")
  func woken() async throws {
    let store = CountingStore()
    let (first, second) = try await pair(store)
    let issued = try await first.issue()
    #expect(try await second.poll(issued).state == .pending)
    let shared = try #require(first.api.shared)
    let listening = Task { await second.api.listenToOthers() }
    while shared.wakes.count == 0 { await Task.yield() }
    first.clock.move(by: .seconds(6))
    async let waiting = second.poll(issued, lastVersion: 1, waitMs: 25_000)
    while second.api.table.waiterCount == 0 { await Task.yield() }
    _ = try await first.scan(issued)
    let answer = try await waiting
    #expect(answer.state == .scanned)
    #expect(answer.scannerMask.hasSuffix("***"))
    listening.cancel()
    await listening.value
    while shared.wakes.count > 0 {
      shared.wakes.showLife()
      await Task.yield()
    }
  }

  @Test("an instance that is behind is told so much and no more, and one that stops tells nobody")
  func boxes() async throws {
    let wakes = Wakes()
    let box = try #require(wakes.open())
    let change = QRChange(try await changed())
    for _ in 0...Limits.changesPerInstance { wakes.tell(change) }
    #expect(await box.next()?.count == Limits.changesPerInstance)
    wakes.tell(change)
    #expect(await box.next() == [change])
    wakes.close(box)
    #expect(wakes.count == 0)
    for _ in 0..<Limits.listeningInstances { #expect(wakes.open() != nil) }
    #expect(wakes.open() == nil)
    let (first, _) = try await pair()
    let shared = try #require(first.api.shared)
    let last = try #require(shared.wakes.open())
    first.api.stopWaiting()
    #expect(await last.next() == nil)
    #expect(shared.wakes.open() == nil)
  }

  private func changed() async throws -> QRSession {
    let harness = try Harness()
    return try await harness.stored(try await harness.confirmed())
  }

  @Test("a change is said and heard as it is, and what is none is not heard")
  func wireForm() async throws {
    let change = QRChange(try await changed())
    #expect(QRChange(QRV1.SessionChange(change)) == change)
    #expect(QRChange(QRV1.SessionChange()) == nil)
    var odd = QRV1.SessionChange(change)
    odd.state = QRV1.SessionState(rawValue: 99)
    #expect(QRChange(odd) == nil)
    odd = QRV1.SessionChange(change)
    odd.pollHash.removeLast()
    #expect(QRChange(odd) == nil)
  }

  @Test("while the database is away pending codes stay pending, and what changed meanwhile is heard afterwards")
  func outage() async throws {
    let store = CountingStore()
    let (first, second) = try await pair(store)
    let issued = try await first.issue()
    #expect(try await second.poll(issued).state == .pending)
    store.isCut.withLock { $0 = true }
    await #expect(throws: StorageError.self) { try await second.hear() }
    let mark = store.marks.withLock { $0.last }
    second.clock.move(by: .seconds(6))
    #expect(try await second.poll(issued).state == .pending)
    store.isCut.withLock { $0 = false }
    _ = try await first.scan(issued)
    try await second.hear()
    // Asked after the same state: a change that is slow to be committed is after it, whenever it was written.
    #expect(store.marks.withLock { $0.last?.state } == mark?.state)
    second.clock.move(by: .seconds(6))
    #expect(try await second.poll(issued).state == .scanned)
  }

  @Test("another server of the database is asked for all that changed, also before")
  func takenOver() async throws {
    let store = CountingStore()
    let (first, second) = try await pair(store)
    let issued = [try await first.issue(), try await first.issue(), try await first.issue()]
    for code in issued { #expect(try await second.poll(code).state == .pending) }
    for code in issued { _ = try await first.scan(code) }
    // As if the server before had told of them, and nobody listened.
    let shared = try #require(second.api.shared)
    _ = try await shared.tail.next()
    store.isTakenOver.withLock { $0 = true }
    try await second.hear()
    second.clock.move(by: .seconds(6))
    for code in issued { #expect(try await second.poll(code).state == .scanned) }
    let asked = store.marks.withLock { $0.count }
    try await second.hear()
    #expect(store.marks.withLock { $0.count } == asked + 1)
  }

  @Test("an instance that reads what it missed is behind until the last page, and is as current as the first")
  func pages() async throws {
    let (first, second) = try await pair()
    let shared = try #require(second.api.shared)
    for code in [try await first.issue(), try await first.issue()] { _ = try await first.scan(code) }
    let before = ContinuousClock.now
    #expect(try await shared.tail.next().mark.place != nil)
    let between = ContinuousClock.now
    #expect(shared.tail.obstacle(at: before + Limits.tailSilence) != nil)
    try await second.hear()
    #expect(shared.tail.obstacle(at: before + Limits.tailSilence) == nil)
    #expect(shared.tail.obstacle(at: between + Limits.tailSilence) != nil)
  }

  @Test("a code shown on one instance is superseded and cancelled on another")
  func superseded() async throws {
    let (first, second) = try await pair()
    let old = try await first.issue()
    let new = try await second.issue { $0.supersedes = old.deviceCode }
    #expect(try await first.stored(old).phase == .cancelled)
    _ = try await first.api.cancelSession(
      QRV1.CancelSessionRequest(deviceCode: new.deviceCode), context: .screen())
    #expect(try await first.stored(new).phase == .cancelled)
    let claimed = try await first.issue()
    _ = try await first.scan(claimed)
    let error = await refusal { _ = try await second.issue { $0.supersedes = claimed.deviceCode } }
    #expect(error == .codeClaimed)
  }

  @Test("of several instances that show a code, the one that issued it records that its time was over")
  func oneRecordsExpiry() async throws {
    let (first, second) = try await pair()
    let issued = try await first.issue()
    _ = try await second.poll(issued)
    first.clock.move(by: .seconds(121))
    for harness in [first, second] { harness.api.sweep(at: harness.clock.now()) }
    #expect(first.audited.count { $0 == .expired } == 1)
    #expect(second.audited.count { $0 == .expired } == 0)
  }

  @Test("after a restart an instance has its own codes in memory, and no others")
  func restart() async throws {
    let store = CountingStore()
    let (first, second) = try await pair(store)
    for _ in 0..<3 { _ = try await first.issue() }
    _ = try await second.issue()
    #expect(try await Harness.instance(1, over: store, beside: first).api.table.count == 3)
    #expect(try await Harness.instance(2, over: store, beside: first).api.table.count == 1)
    #expect(try await Harness.instance(0, over: store, beside: first).api.table.count == 0)
  }
}
