import Domain
import LatchkeyModel
import Storage
import StorageMemory
import Synchronization
import Testing

@Suite("A guess at codes counts as often as it is compared, whatever becomes of it")
struct CodeGuessTests {
  private let world = World()

  @Test("R24: who had twenty codes sent to twenty networks compares fifty times from others, and then once a try")
  func strangers() async throws {
    for number in 0..<20 { _ = try await world.sendCode(1, to: "198.51.100.\(number)") }
    #expect(try await world.triesElsewhere() == 100)
    for network in 0..<30 {
      for _ in 0..<12 { _ = try await world.guessCode(7, from: "203.0.113.\(network)") }
    }
    #expect(try await world.triesElsewhere() == 50)
    world.clock.advance(by: .seconds(3600))
    for number in 0..<20 { _ = try await world.sendCode(1, to: "198.51.100.\(number)") }
    for network in 0..<30 { _ = try await world.guessCode(7, from: "203.0.113.\(network)") }
    #expect(try await world.triesElsewhere() == 99)
  }

  @Test("R24: who guesses from a known network at twenty codes of strangers compares ten times, and then once a try")
  func known() async throws {
    let ada = try await world.account("ada").session.subject
    for number in 0..<20 { _ = try await world.sendCode(1, to: "198.51.100.\(number)", of: ada) }
    for _ in 0..<12 { _ = try await world.guessCode(7, from: "192.0.2.1", of: ada) }
    #expect(try await world.triesElsewhere() == 90)
    world.clock.advance(by: .seconds(1))
    for _ in 0..<12 { _ = try await world.guessCode(7, from: "192.0.2.1", of: ada) }
    #expect(try await world.triesElsewhere() == 89)
  }

  @Test("A code that one network asked for holds on another without its handle, however many codes strangers ask for")
  func crossing() async throws {
    let sent = try await world.sendCode(42, to: "192.0.2.9")
    world.clock.advance(by: .seconds(1))
    _ = try await world.sendCode(1, to: "198.51.100.0")
    // Beside one stranger's code it may be mistyped as often as beside none.
    for left in (Int64(1)..<5).reversed() {
      #expect(try await world.guessCode(7, from: "203.0.113.1") == .wrong(attemptsLeft: left))
    }
    for number in 1..<19 { _ = try await world.sendCode(1, to: "198.51.100.\(number)") }
    let before = try await world.triesElsewhere()
    #expect(try await world.guessCode(42, from: "203.0.113.2") == .holds(sent))
    #expect(try await world.triesElsewhere() == before)
  }

  @Test("R24: a right code that is refused leaves no try, however many codes it was compared with")
  func refusedMatch() async throws {
    let sent = try await world.sendCode(42, to: "192.0.2.9")
    for number in 0..<5 { _ = try await world.sendCode(1, to: "198.51.100.\(number)") }
    // More often than wrong tries are free.
    for _ in 0..<12 {
      let outcome = try await world.guessCode(42, from: "203.0.113.1", settling: .notMade)
      #expect(outcome == .holds(sent))
    }
    // Of wrong ones all stay.
    for _ in 0..<2 { _ = try await world.guessCode(7, from: "203.0.113.1") }
    let waits = try await world.guessCode(42, from: "203.0.113.1") == nil
    #expect(waits)
  }

  @Test("R24: where strangers' tries are used up, what a known network asked for is compared before strangers' codes")
  func knownFirst() async throws {
    let ada = try await world.account("ada").session.subject
    let sent = try await world.sendCode(42, to: "192.0.2.1", of: ada)
    for number in 0..<3 {
      world.clock.advance(by: .seconds(1))
      _ = try await world.sendCode(1, to: "198.51.100.\(number)", of: ada)
    }
    for number in 0..<50 {
      #expect(try await world.countGuess(from: "203.0.113.\(number / 10)", of: ada) != nil)
    }
    #expect(try await world.guessCode(42, from: "203.0.113.9", of: ada) == nil)
    world.clock.advance(by: .seconds(1))
    #expect(try await world.guessCode(42, from: "203.0.113.9", of: ada) == .holds(sent))
  }

  @Test("R24: of twenty wrong codes that nothing can be noted of ten are looked at, where they were sent and elsewhere")
  func noRoom() async throws {
    let storage = StorageWithoutRoom()
    let world = World(storage: storage)
    let sent = try await world.sendCode(42, to: "192.0.2.9")
    storage.fill()
    for network in ["192.0.2.9", "198.51.100.1"] {
      var failed = 0
      for _ in 0..<20 {
        do {
          let outcome = try await world.guessCode(7, from: network)
          #expect(outcome == nil)
        } catch let error as StorageError where error.fault == .full {
          failed += 1
        }
      }
      #expect(failed == 10)
    }
    // From elsewhere a right one needs as much room, and says as little. Where it was sent it holds.
    await #expect(throws: StorageError.self) { try await world.guessCode(42, from: "198.51.100.2") }
    world.clock.advance(by: .seconds(1))
    #expect(try await world.guessCode(42, from: "192.0.2.9") == .holds(sent))
  }

  @Test("A try is given back where no code could be looked at, whichever it was, and else it stays counted")
  func givenBack() async throws {
    let counted = try #require(try await world.countGuess(from: "192.0.2.9"))
    for fault in [StorageError.Fault.overloaded, .cancelled, .closed, .unavailable] {
      let isGivenBack = SettleAttempt(counted, after: StorageError(fault, operation: "test")) != nil
      #expect(isGivenBack)
    }
    for fault in [StorageError.Fault.full, .constraint(.check), .corrupt, .misuse, .superseded, .outcomeUnknown] {
      let isKept = SettleAttempt(counted, after: StorageError(fault, operation: "test")) == nil
      #expect(isKept)
    }
  }
}

extension World {
  /// A code for an address, which a network asked for.
  func sendCode(_ digits: UInt8, to network: String, of account: SubjectID? = nil) async throws -> OneTimeCode {
    let code = OneTimeCode(identifierHash: [1], codeHash: [digits], handleHash: source.bytes(32))
    let issue = IssueCode(
      code, for: account, by: Requester(source: network), under: OneTimeCodePolicy(), at: now)
    guard try await domain.perform(issue) == .issued else { throw Unexpected() }
    return code
  }

  /// Nil where the guess has to wait.
  func countGuess(from network: String, of account: SubjectID? = nil) async throws -> CountedAttempt? {
    let attempt = SignInAttempt(
      targetHash: [7], account: account, requester: Requester(source: network), now: now)
    return try await domain.perform(CountAttempt(attempt, under: AttemptPolicy())).counted
  }

  /// What comes of a guess without a handle, as the service makes it; nil where it has to wait.
  ///
  /// - Parameter result: what becomes of the try of a right one.
  func guessCode(
    _ digits: UInt8, from network: String, of account: SubjectID? = nil,
    settling result: SettleAttempt.Result = .succeeded
  ) async throws -> PresentCode.Outcome? {
    guard let counted = try await countGuess(from: network, of: account) else { return nil }
    var guess = PresentCode(
      identifierHash: [1], codeHash: [digits], handleHash: nil, account: account,
      requester: Requester(source: network), at: now)
    guess.counted = counted
    do throws(StorageError) {
      let outcome = try await domain.perform(guess)
      if case .holds = outcome { try await domain.perform(SettleAttempt(counted, result)) }
      return outcome
    } catch {
      if let settle = SettleAttempt(counted, after: error) { try await domain.perform(settle) }
      throw error
    }
  }

  /// How often codes of the address may yet be compared with guesses from elsewhere, all together.
  func triesElsewhere() async throws -> Int64 { try await domain.perform(CountTriesElsewhere()) }
}

private struct CountTriesElsewhere: IdentityCommand {
  static let name = "count the tries from elsewhere"

  func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Int64 {
    var left: Int64 = 0
    for code in try await rows.codes.lockAll(of: [1]) { left += code.elsewhereLeft }
    return left
  }
}

// MARK: No room

/// The engine in memory, which has no room left for codes once it is full.
private final class StorageWithoutRoom: IdentityStorage {
  private let near = MemoryIdentityStorage()
  private let isFull = Mutex(false)

  func fill() { isFull.withLock { $0 = true } }

  func write<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    guard isFull.withLock({ $0 }) else { return try await near.write(operation) }
    return try await near.write(WithoutRoom(operation: operation))
  }

  func read<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await near.read(operation)
  }
}

private struct WithoutRoom<Operation: IdentityOperation>: IdentityOperation {
  static var name: String { Operation.name }

  let operation: Operation

  func run(in rows: some IdentityTransaction) async throws(StorageError) -> Operation.Outcome {
    try await operation.run(in: TransactionWithoutRoom(near: rows))
  }
}

private struct TransactionWithoutRoom<Near: IdentityTransaction>: IdentityTransaction {
  let near: Near

  var isShared: Bool { near.isShared }

  var subjects: Near.Subjects { near.subjects }
  var devices: Near.Devices { near.devices }
  var sessions: Near.Sessions { near.sessions }
  var identities: Near.Identities { near.identities }
  var challenges: Near.Challenges { near.challenges }
  var codes: CodesWithoutRoom<Near.Codes> { CodesWithoutRoom(near: near.codes) }
  var attempts: Near.Attempts { near.attempts }
  var unlocks: Near.Unlocks { near.unlocks }
  var tickets: Near.Tickets { near.tickets }
  var lineage: Near.Lineage { near.lineage }
  var merges: Near.Merges { near.merges }
  var mergedGuests: Near.MergedGuests { near.mergedGuests }
  var sources: Near.Sources { near.sources }
  var replays: Near.Replays { near.replays }
  var transfers: Near.Transfers { near.transfers }
  var grants: Near.Grants { near.grants }
  var guides: Near.Guides { near.guides }
  var purges: Near.Purges { near.purges }
  var notices: Near.Notices { near.notices }
  var upkeep: Near.Upkeep { near.upkeep }
  var audit: Near.Audit { near.audit }
}

private struct CodesWithoutRoom<Near: OneTimeCodeRows>: OneTimeCodeRows {
  let near: Near

  func lock(_ identifierHash: [UInt8], _ share: String) async throws(StorageError) -> StoredCode? {
    try await near.lock(identifierHash, share)
  }

  func lockAll(of identifierHash: [UInt8]) async throws(StorageError) -> [StoredCode] {
    try await near.lockAll(of: identifierHash)
  }

  func put(_ code: StoredCode) async throws(StorageError) { throw StorageError(.full, operation: "put a code") }

  func remove(sentBefore time: Timestamp, limit: Int) async throws(StorageError) {
    try await near.remove(sentBefore: time, limit: limit)
  }

  func spend(_ code: OneTimeCode, at now: Timestamp) async throws(StorageError) -> Bool {
    try await near.spend(code, at: now)
  }
}
