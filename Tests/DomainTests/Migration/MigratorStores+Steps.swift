import Domain
import LatchkeyModel
import TestSupport
import Testing

extension MigratorStores {
  /// Does the next transaction of whichever migration is due. Nil: none is.
  func step(_ lease: JobLease, _ migration: Migration?) async throws -> Migration? {
    guard let migration else {
      return try await migrations.claim(lease, at: MigrationScenario.now)?.migration
    }
    guard let action = migration.action else { return migration }
    return try await migrations.perform(action, of: migration.id, lease: lease, at: MigrationScenario.now)
  }

  /// Does all that is left of whichever migration is due. In how many transactions.
  func finish(_ lease: JobLease) async throws -> Int {
    var migration: Migration?
    var transactions = 0
    repeat {
      migration = try await step(lease, migration)
      transactions += 1
    } while migration?.isFinished == false
    return transactions
  }

  /// Does the next transaction of a migration whose switch identity refuses for good.
  func refusedStep(_ lease: JobLease, _ migration: Migration?) async throws -> Migration? {
    guard let migration, migration.action == .switchSubject else { return try await step(lease, migration) }
    return try await migrations.refuseSwitch(
      of: migration.id, reason: "gone", lease: lease, at: MigrationScenario.now)
  }

  /// All of a subject's records.
  func allRecords(of subject: SubjectID) async throws -> [RecordName: RecordContent] {
    var all: [RecordName: RecordContent] = [:]
    for count in try await records.collections(of: subject) {
      let page = try await records.records(in: count.collection, of: subject, beyond: nil, count: .max - 1, bytes: .max)
      #expect(page.records.count == count.count)
      for record in page.records { all[record.name] = record.content }
    }
    return all
  }

  func save(
    _ rules: CollectionRules,
    number: UInt8,
    guest: SubjectID = MigrationScenario.guest,
    target: SubjectID = MigrationScenario.account
  ) async throws -> PlanID {
    let planned = try await migrations.plan(guest: guest, target: target, rules: rules, isFirstLoginOnDevice: false)
    guard case .done(let plan) = planned else { throw MigrationScenario.Unexpected("\(planned)") }
    let id = PlanID(from: RandomSource { [UInt8](repeating: number, count: $0) })
    try await migrations.save(
      plan, as: id, digest: [number], at: MigrationScenario.now, expiresAt: MigrationScenario.now + .seconds(600))
    return id
  }
}

func migrationID(_ number: UInt8) -> MigrationID {
  MigrationID(from: RandomSource { [UInt8](repeating: number, count: $0) })
}
