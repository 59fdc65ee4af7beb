import Domain
import LatchkeyModel
import Storage
import StorageSQLite
import TestSupport
import Testing

@Suite("Whatever people do, in whatever order")
struct SequenceTests {
  @Test(
    "C20: seeded sequences of commands have the same outcomes on every engine, and no session that ended comes back")
  func sequences() async throws {
    let seed = SeededRandom.seed()
    for round in 0..<UInt64(6) {
      let folder = try TemporaryFolder()
      let database = try SQLiteDatabase.open(path: folder.file("identity.db"), schema: .identity)
      var memory = Sequence(World(seed: seed &+ round))
      var sqlite = Sequence(World(seed: seed &+ round, storage: SQLiteIdentityStorage(database)))
      for step in 0..<120 {
        let (one, other) = (try await memory.step(), try await sqlite.step())
        #expect(one == other, "LATCHKEY_TEST_SEED=\(seed), round \(round), step \(step)")
        guard one == other else { return }
        try await memory.expectSound("LATCHKEY_TEST_SEED=\(seed), round \(round), step \(step): \(one)")
      }
      try await sqlite.expectSound("LATCHKEY_TEST_SEED=\(seed), round \(round)")
      let last = try await [memory, sqlite].asyncMap { sequence in
        try await sequence.world.read { rows throws(StorageError) in try await rows.audit.lockLast()?.sequence }
      }
      #expect(last[0] == last[1] && last[0] != nil)
      await database.close()
    }
  }
}

extension [Sequence] {
  fileprivate func asyncMap<Value>(_ body: (Sequence) async throws -> Value) async throws -> [Value] {
    var values: [Value] = []
    for element in self { values.append(try await body(element)) }
    return values
  }
}

/// Three people with three devices, who do this and that with what they were given before.
struct Sequence {
  let world: World
  private var accounts: [(name: String, id: SubjectID)] = []
  private var used: [UsedChallenge] = []
  private var replays: [SignIn.Replay] = []

  init(_ world: World) {
    self.world = world
  }

  private func any<Value>(_ values: [Value]) -> Value? {
    values.isEmpty ? nil : values[world.below(values.count)]
  }

  private var key: String { "key \(world.below(3))" }
  private var name: String { ["ada", "bob", "carl"][world.below(3)] }

  /// What came of the next thing that somebody does.
  mutating func step() async throws -> String {
    world.clock.advance(by: .seconds(world.below(20) == 0 ? 40 * 86_400 : world.below(100)))
    // Sorted: engines end several sessions in an order of their own.
    let known = world.heard.began.sorted { $0.id < $1.id }
    switch world.below(10) {
    case 0, 1: return try await startGuest()
    case 2: return try await register(any(known))
    case 3, 4: return try await signIn(any(known))
    case 5:
      guard let session = any(known) else { return "" }
      return "\(try await world.refresh(session.id, Int64(1 + world.below(3)), isGenuine: world.below(5) > 0))"
    case 6: return try await logOut(any(known))
    case 7:
      guard let session = any(known), let caller = any(known) else { return "" }
      return "\(try await world.domain.perform(RevokeSession(session.id, by: caller.id, at: world.now)))"
    case 8:
      guard let caller = any(known) else { return "" }
      return "\(try await world.domain.perform(RemoveDevice(key, by: caller.id, at: world.now)))"
    default: return try await replaceKey(any(known))
    }
  }

  private mutating func startGuest() async throws -> String {
    var challenge = world.challenge()
    if world.below(5) == 0, let earlier = any(used) { challenge = earlier }
    used.append(challenge)
    let counter = world.below(3) == 0 ? Int64(world.below(6)) : 0
    return "\(try await world.startGuest(key, counter: counter, challenge: challenge, mayBeNew: world.below(9) > 0))"
  }

  private mutating func register(_ session: Session?) async throws -> String {
    let name = name
    let guest = session.flatMap { $0.isGuest && world.below(2) == 0 ? $0.id : nil }
    let outcome = try await world.register(name, guest: guest)
    if case .registered(let signedIn) = outcome { accounts.append((name, signedIn.session.subject)) }
    return "\(outcome)"
  }

  private mutating func signIn(_ session: Session?) async throws -> String {
    guard let account = any(accounts) else { return "" }
    var guest: SignIn.Guest?
    if let session, session.isGuest {
      let choice: SignIn.GuestChoice = world.below(2) == 0 ? .leave : .merge(world.id(), dueAt: world.now)
      guest = SignIn.Guest(session: session.id, choice: choice)
    }
    var replay: SignIn.Replay?
    if world.below(2) == 0 {
      replay = world.below(3) == 0 ? any(replays) : world.replay()
      if let replay { replays.append(replay) }
    }
    let hash = world.below(6) == 0 ? "wrong" : nil
    return "\(try await world.signIn(account.name, as: account.id, hash: hash, guest: guest, replay: replay))"
  }

  private func logOut(_ session: Session?) async throws -> String {
    guard let session else { return "" }
    let reach: LogOut.Reach = [.local, .others, .global][world.below(3)]
    var next: LogOut.NextGuest?
    if world.below(2) == 0 { next = LogOut.NextGuest(newSubject: world.id(), draft: try world.draft(.guest)) }
    return
      "\(try await world.domain.perform(LogOut(session: session.id, reach: reach, nextGuest: next, now: world.now)))"
  }

  private func replaceKey(_ session: Session?) async throws -> String {
    let replacement = KeyReplacement(
      oldKey: key, device: try world.device(world.below(2) == 0 ? key : "key \(world.below(1000))"),
      challenge: world.challenge(), address: "192.0.2.1", now: world.now)
    guard world.below(2) == 0, let session else {
      let choice: ResolveClone.Choice = world.below(2) == 0 ? .split : .transfer
      return
        "\(try await world.domain.perform(ResolveClone(replacement, choice, newSubject: world.id(), draft: world.draft(.guest))))"
    }
    return "\(try await world.domain.perform(RotateKey(replacement, by: session.id)))"
  }

  /// What holds after every step.
  func expectSound(_ comment: String) async throws {
    let ended = world.heard.ended
    #expect(Set(ended.map(\.id)).count == ended.count, "a session ended twice: \(comment)")
    for session in ended { #expect(try await !world.isLive(session.id), "\(session) came back: \(comment)") }
    var guests: [String: Int] = [:]
    for began in world.heard.began where began.isGuest {
      guard let session = try await world.session(began.id), session.isLive(at: world.now) else { continue }
      guests["\(session.subject) on \(session.device.keyThumbprint ?? "")", default: 0] += 1
    }
    #expect(guests.values.allSatisfy { $0 == 1 }, "a guest has two sessions on a device: \(comment)")
  }
}
