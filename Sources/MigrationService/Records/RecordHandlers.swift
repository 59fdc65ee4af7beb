import Callers
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Answers `latchkey.migration.v1.RecordService`, one file for each method. Every method is about the records of the
/// caller, but those that only identity may call.
package struct RecordHandlers: MigrationV1.RecordService {
  let core: MigrationCore

  package init(_ core: MigrationCore) {
    self.core = core
  }

  /// A guest who became an account reads before anything else: then its records no longer count as guests' (R54). Nearly
  /// always there is nothing to write, and what cannot be written now is by the next call: reading goes on.
  func noteAccount(_ subject: SubjectID, _ context: ServerContext) async throws(RPCError) {
    guard try !context.requireSubject().isGuest, try await core.look(CountsAsGuest(subject)) else { return }
    // Whoever only reads is not refused because too much waits to be written.
    var place = CallPlace.current
    place?.gate = nil
    _ = await CallPlace.$current.withValue(place) { try? await core.perform(NoteAccount(subject)) }
  }
}
