import Domain
import LatchkeyModel
import Storage

/// Tells those who watch here of what other instances do: looks at the migrations that somebody watches, all in a few
/// statements, and at none while nobody does.
struct MigrationTail {
  private let core: MigrationCore

  init(_ core: MigrationCore) {
    self.core = core
  }

  func run() async {
    var seen: [MigrationID: StoredMigration] = [:]
    while !Task.isCancelled {
      seen = await look(since: seen)
      try? await Task.sleep(for: Limits.tailInterval)
    }
  }

  /// Rings for each that stands elsewhere than it did, and for each that is new here: it may have moved while its watch
  /// began.
  private func look(since seen: [MigrationID: StoredMigration]) async -> [MigrationID: StoredMigration] {
    let watched = core.signals.watched
    var standings: [MigrationID: StoredMigration] = [:]
    for start in stride(from: 0, to: watched.count, by: Limits.tailPage) {
      let page = Array(watched[start..<min(start + Limits.tailPage, watched.count)])
      // Without an answer the watches look for themselves, more seldom.
      guard let found = try? await core.domain.look(FindStandings(page)) else { return seen }
      for (id, standing) in found where seen[id] != standing { core.signals.moved(id) }
      standings.merge(found) { $1 }
    }
    return standings
  }
}
