import GRPC
import LatchkeyModel

/// Who makes tokens for a confirmed session: the identity service.
package protocol QRGrantIssuer: Sendable {
  /// Signs the initiating device in. Asked again for the same session, it ends what it issued before: at most one grant
  /// of a session is ever alive.
  func issue(_ session: QRSession, deadline: ContinuousClock.Instant?) async throws(RPCError) -> RedeemedGrant

  /// How the account may be named on the initiating screen (S23); nil when it has nothing to be named by.
  func mask(of subject: SubjectID, deadline: ContinuousClock.Instant?) async throws(RPCError) -> DisplayText?

  /// Ends everything that was issued for the session. Returns how many sign-ins that ended.
  func revoke(_ session: QRSessionID, reason: String) async throws(RPCError) -> Int64
}
