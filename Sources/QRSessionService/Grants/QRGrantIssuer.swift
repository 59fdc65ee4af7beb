import GRPC
import LatchkeyModel

/// Who makes tokens for a confirmed session: the identity service.
package protocol QRGrantIssuer: Sendable {
  /// Makes what the session's purpose grants: tokens for the initiating device, or a signed confirmation. Asked again
  /// for the same session, it ends what it issued before: at most one grant of a session is ever alive. Each time is a turn
  /// of its own with a higher number; what comes after a later one does nothing and fails with `QR_TURN_OVER`.
  func issue(
    _ session: QRSession, turn: Int64, deadline: ContinuousClock.Instant?
  ) async throws(RPCError) -> RedeemedGrant

  /// Who scans, and on which device.
  func describe(
    _ subject: SubjectID,
    session: SessionID,
    deadline: ContinuousClock.Instant?
  ) async throws(RPCError) -> SubjectDescription

  /// Ends everything that was issued for the session. Returns how many sign-ins that ended.
  func revoke(_ session: QRSessionID, reason: String) async throws(RPCError) -> Int64
}
