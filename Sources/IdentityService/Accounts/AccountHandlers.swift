import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Answers `latchkey.identity.v1.AccountService`, one file for each method.
package struct AccountHandlers: IdentityV1.AccountService, Surrounded {
  let owners: any OwnerStore
  let accounts: any AccountStore
  let evidence: Evidence
  let reauthentication: Reauthentication
  let removal: SubjectRemoval
  let notices: OwnerNotices
  let callers: CallerChecks
  let surroundings: Surroundings

  func endsOthers(_ choice: IdentityV1.OtherSessions) throws(RPCError) -> Bool {
    switch choice {
    case .unspecified, .end: true
    case .keep: false
    case .unrecognized: throw .invalid("other_sessions", "must be END or KEEP")
    }
  }

  /// Makes the change, and tells the account's verified addresses. Returns how many sessions ended.
  func change(
    _ change: PasswordChange, telling notice: AccountNotice
  ) async throws(RPCError) -> Int64 {
    let outcome = try await stored { () throws(StorageError) in try await owners.changePassword(change) }
    switch outcome {
    case .changed(let changed):
      notices.tell(notice, try await notices.owner(of: changed.account))
      return Int64(changed.sessionsEnded)
    case .callerEnded: throw .sessionRevoked
    case .stale: throw .passwordChangedMeanwhile
    case .codeSpent: throw .codeVoid
    case .lastWayIn: throw .passwordIsLast
    case .disabled: throw .subjectDisabled
    }
  }
}
