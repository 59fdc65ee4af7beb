import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Answers `latchkey.identity.v1.AccountService`, one file for each method.
package struct AccountHandlers: IdentityV1.AccountService, Deciding {
  let domain: IdentityDomain
  let evidence: Evidence
  let reauthentication: Reauthentication
  let removal: SubjectRemoval
  let notices: NoticeCourier
  let callers: CallerChecks
  let surroundings: Surroundings

  func endsOthers(_ choice: IdentityV1.OtherSessions) throws(RPCError) -> Bool {
    switch choice {
    case .unspecified, .end: true
    case .keep: false
    case .unrecognized: throw .invalid("other_sessions", "must be END or KEEP")
    }
  }

  /// Makes the change, of which the account's verified addresses are told. Returns how many sessions ended.
  func change(_ change: ChangePassword) async throws(RPCError) -> Int64 {
    switch try await perform(change) {
    case .changed(_, let ended):
      notices.hurry()
      return Int64(ended)
    case .callerEnded: throw .sessionRevoked
    case .stale: throw .passwordChangedMeanwhile
    case .codeSpent: throw .codeVoid
    case .lastWayIn: throw .passwordIsLast
    case .disabled: throw .subjectDisabled
    }
  }
}
