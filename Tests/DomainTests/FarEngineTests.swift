import LatchkeyModel
import Storage
import Testing

@testable import Domain
@testable import StorageMemory

/// What makes a far engine worth its while: its round trips are those of one command, however many commands it runs.
@Suite("C20: commands over an engine that is far away")
struct FarEngineTests {
  /// Runs commands as one group. Returns what came of them, and in how many round trips they were loaded.
  private func run<Command: IdentityCommand>(
    _ commands: [Command], in world: World
  ) async throws -> (outcomes: [Command.Outcome], roundTrips: Int) {
    try await world.storage.write(Group(commands: commands))
  }

  /// All of them within one operation of the engine in memory, so that nothing else runs meanwhile.
  private struct Group<Command: IdentityCommand>: IdentityOperation {
    static var name: String { "a group of commands" }

    let commands: [Command]

    func run(
      in rows: some IdentityTransaction
    ) async throws(StorageError) -> (outcomes: [Command.Outcome], roundTrips: Int) {
      let (lane, batch) = (Lane(), Batch())
      guard let near = rows as? MemoryIdentityTransaction else {
        throw StorageError(.misuse, operation: Self.name, detail: "the far engine stands on the one in memory")
      }
      // Every task runs on the lane, which this call alone drains.
      nonisolated(unsafe) let far = FarTransaction(near: near, batch: batch)
      let tasks = commands.map { command in
        Task(executorPreference: lane) {
          var changes = SessionChanges()
          return try await command.decide(in: unsafe far, noting: &changes)
        }
      }
      var roundTrips = 0
      lane.drain()
      while batch.count > 0 {
        roundTrips += 1
        batch.answer()
        lane.drain()
      }
      var outcomes: [Command.Outcome] = []
      for task in tasks {
        do {
          outcomes.append(try await task.value)
        } catch {
          throw error as? StorageError ?? StorageError(.misuse, operation: Self.name, detail: "\(error)")
        }
      }
      return (outcomes, roundTrips)
    }
  }

  @Test("C20: forty starts as a guest are loaded in as many round trips as one")
  func guests() async throws {
    let world = World()
    func start(_ key: String) throws -> StartGuest {
      StartGuest(
        device: try world.device(key), challenge: world.challenge(), newSubject: world.id(), locale: nil,
        draft: try world.draft(.guest))
    }
    let one = try await run([start("alone")], in: world)
    let forty = try await run((0..<40).map { try start("key \($0)") }, in: world)
    #expect(forty.outcomes.allSatisfy { if case .started(let guest) = $0 { guest.isNew } else { false } })
    #expect(one.roundTrips == 3 && forty.roundTrips == 3)
    let again = try await run((0..<40).map { try start("key \($0)") }, in: world)
    #expect(again.outcomes.allSatisfy { if case .started(let guest) = $0 { !guest.isNew } else { false } })
    #expect(again.roundTrips == 6)
  }

  @Test("C20: forty refreshes are loaded in one round trip")
  func refreshes() async throws {
    let world = World()
    var commands: [Refresh] = []
    for number in 0..<40 {
      let session = try await world.guest("key \(number)")
      commands.append(
        Refresh(session: session.id, generation: 1, lifetimes: world.lifetimes, at: world.now) { _ in true })
    }
    let (outcomes, roundTrips) = try await run(commands, in: world)
    #expect(outcomes.allSatisfy { if case .refreshed = $0 { true } else { false } })
    #expect(roundTrips == 1)
  }

  @Test("C20: forty sign-ins are loaded in as many round trips as the one that looks up most")
  func signIns() async throws {
    let world = World()
    func signIn(_ number: Int, withGuest: Bool) async throws -> SignIn {
      let account = try await world.account("name\(number)").session.subject
      var guest: SignIn.Guest?
      if withGuest {
        let session = try await world.guest("key \(number)").id
        guest = SignIn.Guest(session: session, choice: .merge(world.id(), dueAt: world.now))
      }
      let identifier = try AccountIdentifier("name\(number)").orThrow()
      return SignIn(
        proof: .password(account: account, identifier: identifier, hash: "hash of name\(number)"), guest: guest,
        draft: try world.draft(.password), challenge: world.challenge(), source: "192.0.2.7", replay: world.replay())
    }
    let plain = try await run([signIn(100, withGuest: false)], in: world)
    let guest = try await run([signIn(101, withGuest: true)], in: world)
    var commands: [SignIn] = []
    for number in 0..<40 { commands.append(try await signIn(number, withGuest: number % 2 == 0)) }
    let forty = try await run(commands, in: world)
    #expect(forty.outcomes.allSatisfy { if case .signedIn = $0 { true } else { false } })
    #expect(plain.roundTrips < guest.roundTrips && forty.roundTrips == guest.roundTrips)
  }
}
