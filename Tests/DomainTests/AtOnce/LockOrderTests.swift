import LatchkeyModel
import Storage
import StoragePostgreSQL
import TestSupport
import Testing

@testable import Domain

@Suite("C3: operations wait for each other in one order")
struct LockOrderTests {
  /// Runs `body` over a database of its own, and says how often the database found operations waiting in a circle.
  private func circles(_ body: (World) async throws -> Void) async throws -> Int64 {
    let url = try PostgreSQLURL(try PostgreSQLServer.shared().database())
    let database = try await PostgreSQLDatabase.open(url: url, schema: .identity, connections: 8, isPatient: true)
    try await body(World(storage: PostgreSQLIdentityStorage(database)))
    // A connection that ends has counted all that it met.
    await database.close()
    let reader = try await PostgreSQLDatabase.open(url: url, schema: .identity, connections: 1)
    let count = try await reader.read { db throws(StorageError) in
      try await db.first("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") { $0.integer(0) }
    }
    await reader.close()
    return try count.orThrow()
  }

  @Test("Signing out to a guest, starting, and replacing the device's key never wait in a circle")
  func devices() async throws {
    let count = try await circles { world in
      for round in 0..<20 {
        let key = "key \(round)"
        // The account's device has no guest: the first who asks makes it.
        let ada = try await world.account("ada\(round)", on: key)
        _ = try await world.forty { number -> Bool in
          switch number % 8 {
          case 0:
            let next = LogOut.NextGuest(newSubject: world.id(), draft: try world.draft(.guest))
            _ = try await world.domain.perform(
              LogOut(session: ada.id, reach: .local, nextGuest: next, now: world.now))
          case 1:
            let replacement = KeyReplacement(
              oldKey: key, device: try world.device("new \(key)"), challenge: world.challenge(), address: "",
              now: world.now)
            _ = try await world.domain.perform(RotateKey(replacement, by: ada.id))
          default: _ = try await world.startGuest(key)
          }
          return true
        }
      }
    }
    #expect(count == 0)
  }

  @Test("A stolen token that is found beside what its owner does never waits in a circle")
  func stolen() async throws {
    let count = try await circles { world in
      for round in 0..<20 {
        let ada = try await world.account("ada\(round)").session
        _ = try await world.refresh(ada.id, 1)
        world.clock.advance(by: .seconds(60))
        _ = try await world.refresh(ada.id, 2)
        world.clock.advance(by: .seconds(60))
        let outcomes = try await world.forty { number -> Bool in
          if number.isMultiple(of: 2) {
            return if case .reused = try await world.refresh(ada.id, 1) { true } else { false }
          }
          _ = try await world.domain.perform(LogOut(session: ada.id, reach: .others, nextGuest: nil, now: world.now))
          return false
        }
        #expect(outcomes.filter { $0 }.count == 1)
        #expect(try await !world.isLive(ada.id))
      }
    }
    #expect(count == 0)
  }
}
