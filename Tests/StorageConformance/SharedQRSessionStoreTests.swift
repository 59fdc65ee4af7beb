import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("C1, C20: what instances share of QR sessions is the same in every engine that several may use")
struct SharedQRSessionStoreTests {
  static let engines: [Engine] = [.memory, .postgresql]

  private let start = Timestamp(secondsSinceEpoch: 1_790_000_000)
  private let ada = [UInt8](repeating: 1, count: 16)
  private let bob = [UInt8](repeating: 2, count: 16)

  private func open(_ engine: Engine) async throws -> any SharedQRSessionStore {
    try #require(try await engine.openQRSessions(in: try TemporaryFolder()) as? any SharedQRSessionStore)
  }

  private func session(_ number: UInt8) throws -> QRSession {
    func digest(_ part: UInt8) throws -> Digest256 {
      try #require(Digest256([UInt8](repeating: number &+ part, count: 32)))
    }
    return QRSession(
      id: QRSessionID(instance: 3, from: RandomSource { [UInt8](repeating: number, count: $0) }),
      keys: QRSessionKeys(pollSecret: try digest(0), reference: try digest(80), userCode: try digest(160)),
      request: QRSessionRequest(
        purpose: .login, clientID: try #require(ClientID("latchkey-demo")), scope: .screen,
        challenge: PKCEChallenge(digest: try digest(9)),
        initiator: QRInitiator(label: nil, platform: nil, app: nil, address: "192.0.2.1")),
      issued: start, lifetime: .seconds(120))
  }

  private func cancelled(_ session: QRSession) -> QRSession {
    var session = session
    _ = session.cancel(at: start)
    return session
  }

  private func look(_ store: any SharedQRSessionStore, _ mark: QRChangeMark) async throws(StorageError) -> QRChanges {
    try await store.changes(since: mark, orOfLast: .seconds(600), limit: 7)
  }

  @Test("one secret is everybody's, whoever proposes it first", arguments: engines)
  func secret(_ engine: Engine) async throws {
    let store = try await open(engine)
    let secrets = try await withThrowingTaskGroup(of: [UInt8].self) { group in
      for number in 0..<20 as Range<UInt8> {
        group.addTask { try await store.sharedSecret(proposing: [UInt8](repeating: number, count: 32)) }
      }
      return try await group.reduce(into: Set<[UInt8]>()) { $0.insert($1) }
    }
    #expect(secrets.count == 1)
  }

  @Test("each change is read once, whatever is stored while it is read", arguments: engines)
  func changes(_ engine: Engine) async throws {
    let store = try await open(engine)
    var mark = try await store.changeMark()
    let sessions = try (1...60).map { try session($0) }
    for session in sessions { try await store.insert(session) }
    #expect(try await look(store, mark).changes.isEmpty)
    var read: [QRChange] = []
    try await withThrowingTaskGroup(of: Void.self) { group in
      for session in sessions {
        group.addTask {
          let isStored = try await store.exchange(session, for: cancelled(session), at: start)
          #expect(isStored)
        }
      }
      while read.count < sessions.count {
        let page = try await look(store, mark)
        read += page.changes
        mark = page.mark
      }
      try await group.waitForAll()
    }
    let expected = sessions.map { QRChange(cancelled($0)) }
    #expect(read.count == expected.count)
    #expect(expected.allSatisfy(read.contains))
    #expect(try await look(store, mark).changes.isEmpty)
  }

  @Test(
    "what came while nobody asked is read in pages, each change once, up to when the first was read", arguments: engines
  )
  func pages(_ engine: Engine) async throws {
    let store = try await open(engine)
    var mark = try await store.changeMark()
    let sessions = try (1...21).map { try session($0) }
    for session in sessions {
      try await store.insert(session)
      #expect(try await store.exchange(session, for: cancelled(session), at: start))
    }
    var pages: [[QRChange]] = []
    let late = try session(30)
    repeat {
      let read = try await look(store, mark)
      pages.append(read.changes)
      mark = read.mark
      // Between two pages: it comes after the last.
      guard pages.count == 2 else { continue }
      try await store.insert(late)
      #expect(try await store.exchange(late, for: cancelled(late), at: start))
    } while mark.place != nil
    #expect(pages.map(\.count) == [7, 7, 7, 0])
    let told = Array(pages.joined())
    #expect(sessions.allSatisfy { told.contains(QRChange(cancelled($0))) } && !told.contains(QRChange(cancelled(late))))
    let last = try await look(store, mark)
    #expect(last.changes == [QRChange(cancelled(late))])
    #expect(try await look(store, last.mark).changes.isEmpty)
  }

  @Test("after another server took over, all that is young enough is read again in pages", arguments: engines)
  func takenOver(_ engine: Engine) async throws {
    let store = try await open(engine)
    let sessions = try (1...21).map { try session($0) }
    for session in sessions {
      try await store.insert(session)
      #expect(try await store.exchange(session, for: cancelled(session), at: start))
    }
    var mark = QRChangeMark(server: "another", state: try await store.changeMark().state)
    #expect(try await store.changes(since: mark, orOfLast: .seconds(-60), limit: 7).changes.isEmpty)
    var pages: [[QRChange]] = []
    let late = try session(30)
    repeat {
      let read = try await look(store, mark)
      pages.append(read.changes)
      mark = read.mark
      // After the last page but one: it is in the next, and told again after that.
      guard pages.count == 3 else { continue }
      try await store.insert(late)
      #expect(try await store.exchange(late, for: cancelled(late), at: start))
    } while mark.place != nil
    #expect(pages.map(\.count) == [7, 7, 7, 1])
    #expect((sessions + [late]).allSatisfy { pages.joined().contains(QRChange(cancelled($0))) })
    let last = try await look(store, mark)
    #expect(last.changes == [QRChange(cancelled(late))])
    #expect(try await look(store, last.mark).changes.isEmpty)
  }

  @Test("an exchange that fails is no change, and changes are forgotten by their age", arguments: engines)
  func forgetting(_ engine: Engine) async throws {
    let store = try await open(engine)
    let mark = try await store.changeMark()
    let session = try session(1)
    try await store.insert(session)
    #expect(try await store.exchange(cancelled(session), for: session, at: start) == false)
    #expect(try await look(store, mark).changes.isEmpty)
    #expect(try await store.exchange(session, for: cancelled(session), at: start))
    #expect(try await store.forgetChanges(olderThan: .seconds(60), limit: 10) == 0)
    #expect(try await look(store, mark).changes == [QRChange(cancelled(session))])
    // Older than a moment that has not come yet.
    #expect(try await store.forgetChanges(olderThan: .seconds(-60), limit: 10) == 1)
    #expect(try await look(store, mark).changes.isEmpty)
  }

  @Test("S5: of forty that would hand a session over at once, one may, until its time is over", arguments: engines)
  func oneRedeems(_ engine: Engine) async throws {
    let store = try await open(engine)
    let session = try session(1)
    let wins = try await withThrowingTaskGroup(of: Bool.self) { group in
      // None of them is Ada or Bob, who may always take what they hold.
      for number in 10..<50 as Range<UInt8> {
        group.addTask {
          try await store.takeRedemption(
            of: session.id, by: [UInt8](repeating: number, count: 16), for: .seconds(600)) != nil
        }
      }
      return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(wins == 1)
    #expect(try await store.takeRedemption(of: session.id, by: ada, for: .seconds(600)) == nil)
    let first = try #require(try await store.redemption(of: session.id))
    #expect(first.holder != ada)
    #expect(first.answer == nil)
    // Given up, by nobody else.
    try await store.giveUpRedemption(of: session.id, by: ada)
    #expect(try await store.redemption(of: session.id) == first)
    try await store.giveUpRedemption(of: session.id, by: first.holder)
    #expect(try await store.takeRedemption(of: session.id, by: ada, for: .milliseconds(50)) != nil)
    // Over by itself.
    while try await store.takeRedemption(of: session.id, by: bob, for: .seconds(600)) == nil {}
    let last = try #require(try await store.redemption(of: session.id))
    #expect(last.holder == bob)
    try await store.giveUpRedemption(of: session.id, by: ada)
    #expect(try await store.takeRedemption(of: session.id, by: ada, for: .zero) == nil)
    #expect(try await store.redemption(of: session.id) == last)
  }

  @Test("S5: each turn has a higher number than those before, also than one that was forgotten", arguments: engines)
  func turnNumbers(_ engine: Engine) async throws {
    let store = try await open(engine)
    let id = try session(1).id
    var turns: [Int64] = []
    for holder in [ada, ada, bob, ada] {
      turns.append(try #require(try await store.takeRedemption(of: id, by: holder, for: .zero)))
    }
    let held = try #require(try await store.redemption(of: id))
    #expect(try await store.forgetRedemptions(endedBefore: held.until + .seconds(1), limit: 9) == 1)
    let last = try #require(turns.last)
    // A turn's number is of the millisecond, or one more than the last.
    while SystemClock().now().millisecondsSinceEpoch <= last + 1 { try await Task.sleep(for: .milliseconds(2)) }
    turns.append(try #require(try await store.takeRedemption(of: id, by: bob, for: .zero)))
    #expect(turns == Set(turns).sorted())
  }

  @Test("S5: who was overtaken stores nothing, and an answer stays the one that counts", arguments: engines)
  func overtaken(_ engine: Engine) async throws {
    let store = try await open(engine)
    let before = try session(1)
    let after = cancelled(before)
    try await store.insert(before)
    let until = start + .seconds(6)
    func answer(_ holder: [UInt8]) -> QRRedemption { QRRedemption(holder: holder, until: until, answer: holder) }
    #expect(try await store.takeRedemption(of: before.id, by: ada, for: .zero) != nil)
    #expect(try await store.takeRedemption(of: before.id, by: bob, for: .seconds(600)) != nil)
    #expect(try await store.redeem(before, for: after, handingOver: answer(ada), at: start) == .superseded)
    #expect(try await store.session(before.id) == before)
    #expect(try await store.redeem(after, for: after, handingOver: answer(ada), at: start) == .superseded)
    #expect(try await store.redeem(before, for: after, handingOver: answer(bob), at: start) == .done)
    #expect(try await store.session(before.id) == after)
    #expect(try await store.redemption(of: before.id) == answer(bob))
    #expect(try await store.takeRedemption(of: before.id, by: ada, for: .seconds(6)) == nil)
    #expect(try await store.redeem(before, for: after, handingOver: answer(bob), at: start) == .superseded)
    #expect(try await store.forgetRedemptions(endedBefore: until, limit: 9) == 0)
    #expect(try await store.forgetRedemptions(endedBefore: until + .milliseconds(1), limit: 9) == 1)
  }

  @Test("S5: a session that changed is not handed over", arguments: engines)
  func changedMeanwhile(_ engine: Engine) async throws {
    let store = try await open(engine)
    let before = try session(1)
    try await store.insert(before)
    #expect(try await store.takeRedemption(of: before.id, by: ada, for: .seconds(600)) != nil)
    #expect(try await store.exchange(before, for: cancelled(before), at: start))
    let redemption = QRRedemption(holder: ada, until: start, answer: [1])
    #expect(try await store.redeem(before, for: cancelled(before), handingOver: redemption, at: start) == .changed)
    #expect(try await store.redemption(of: before.id)?.answer == nil)
  }
}
