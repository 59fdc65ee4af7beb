import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Answers `latchkey.identity.v1.SessionService`, one file for each method.
package struct SessionHandlers: IdentityV1.SessionService, Deciding {
  let domain: IdentityDomain
  let sessionEvents: SessionEventHub
  let endedSessions: EndedSessions
  let callers: CallerChecks
  let surroundings: Surroundings

  static func message(_ session: Session, for caller: SessionID?) -> IdentityV1.Session {
    IdentityV1.Session(
      sid: session.id.description,
      clientID: session.client.description,
      scope: session.scope.description,
      method: session.method.rawValue,
      deviceLabel: session.device.label?.description ?? "",
      platform: session.device.platform?.description ?? "",
      createdAt: GoogleProtobuf.Timestamp(session.beganAt),
      lastUsedAt: GoogleProtobuf.Timestamp(session.family.rotatedAt),
      expiresAt: GoogleProtobuf.Timestamp(session.family.idleExpiry),
      current: session.id == caller,
      confirmed: session.isConfirmed
    )
  }
}
