import Callers
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

/// Answers `latchkey.identity.v1.AdminService`, one file for each method. Only holders of the service credential get
/// here.
package struct AdminHandlers: IdentityV1.AdminService, Deciding {
  let removal: SubjectRemoval
  let domain: IdentityDomain
  let documents: Documents
  let tokens: TokenIssuer
  let surroundings: Surroundings

  /// What operators write, and services read again when it changes.
  struct Documents: Sendable {
    let policies: PolicyFile
    let guides: GuideFile
    let guideWatches: GuideWatches
    /// Nil where they are in files alone.
    let shared: SharedDocumentTail?
  }

  /// The particulars of a change, for the record: what, and why if that was said.
  func detail(_ what: String, reason text: String) throws(RPCError) -> String {
    let reason = try RequestFields.displayText(text, "reason")
    return [what, reason?.description].compactMap { $0 }.filter { !$0.isEmpty }.joined(separator: ": ")
  }

  func note(_ detail: String, _ context: ServerContext) -> AuditNote {
    AuditNote(.adminChanged, at: clock.now(), address: context.peer.address, detail: detail)
  }

  /// Records a change that no store records by itself.
  func record(_ detail: String, _ context: ServerContext) async throws(RPCError) {
    let note = note(detail, context)
    // In a task of its own: what was changed is on record although the caller went away or its time is over.
    _ = try await CallDeadline.outliving { () async throws(RPCError) in try await perform(RecordEvents([note])) }
  }
}

extension RPCError {
  static var subjectNotFound: RPCError {
    RPCError(.notFound, "there is no such guest or account", reason: "SUBJECT_NOT_FOUND")
  }
}
