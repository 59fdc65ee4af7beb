import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

/// Answers `latchkey.migration.v1.MigrationService`, one file for each method.
package struct MigrationHandlers: MigrationV1.MigrationService {
  let core: MigrationCore

  package init(_ core: MigrationCore) {
    self.core = core
  }

  /// The migration that a request names, if the caller may know of it: the account that receives the records, or a
  /// service. Anyone else learns nothing, not even that it exists.
  func readableMigration(_ text: String, by caller: Caller) async throws(RPCError) -> FindMigration.Report {
    guard let id = MigrationID(text) else { throw .migrationNotFound }
    try core.random.cell.requireSame(id.cell)
    let report = try await core.look(FindMigration(id))
    guard let report, Self.isParty(caller, to: report.migration.target) else { throw .migrationNotFound }
    return report
  }

  static func isParty(_ caller: Caller, to target: SubjectID) -> Bool {
    switch caller {
    case .service: true
    case .subject(let subject): !subject.isGuest && subject.subject == target.description
    case .anonymous: false
    }
  }
}
