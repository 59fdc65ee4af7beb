import LatchkeyModel
import Storage
import StorageMemory
import StoragePostgreSQL
import StorageSQLite
import TestSupport

@testable import Domain

/// What the rules are tried on when many ask at once: engines that run one command after the other, and one that runs
/// eight at a time.
enum WorldEngine: String, CaseIterable, Sendable {
  case memory
  case sqlite
  case postgresql

  func world(seed: UInt64 = 1) async throws -> World {
    switch self {
    case .memory: return World(seed: seed)
    case .sqlite:
      let folder = try TemporaryFolder()
      let database = try SQLiteDatabase.open(path: folder.file("identity.db"), schema: .identity, isPatient: true)
      return World(seed: seed, storage: SQLiteIdentityStorage(database), in: folder)
    case .postgresql:
      let url = try PostgreSQLURL(try PostgreSQLServer.shared().database())
      let database = try await PostgreSQLDatabase.open(url: url, schema: .identity, connections: 8, isPatient: true)
      return World(seed: seed, storage: PostgreSQLIdentityStorage(database))
    }
  }
}

extension World {
  /// What forty answer who ask at once.
  func forty<Outcome: Sendable>(
    _ ask: @escaping @Sendable (Int) async throws -> Outcome
  ) async throws -> [Outcome] {
    try await withThrowingTaskGroup(of: Outcome.self) { group in
      for number in 0..<40 { group.addTask { try await ask(number) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
  }

  func live(of subject: SubjectID) async throws -> [Session] {
    try await domain.look(LiveSessions(of: subject, at: now, limit: 100))
  }

  /// Whether the chains of the audit log have no gaps.
  func isChainWhole() async throws -> Bool {
    let ends = try await domain.look(FindChainEnds())
    for end in ends {
      var last = AuditEnd(chain: end.chain)
      for event in try await domain.look(ListChain(end.chain, after: 0, limit: 10_000)) {
        let next = AuditEnd(chain: end.chain, number: last.number + 1, link: Self.chain.link(after: last, event.note))
        if AuditEnd(event) != next { return false }
        last = next
      }
      if last != end { return false }
    }
    return !ends.isEmpty
  }
}
