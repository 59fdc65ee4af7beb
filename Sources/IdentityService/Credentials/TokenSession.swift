import Cryptography
import Domain
import GRPC
import LatchkeyModel
import ServiceRuntime

/// A token of ours that was presented as data, with the session it names.
enum TokenSession: Sendable {
  case access(AccessTokenClaims, Session)
  case refresh(RefreshToken, Session)

  var session: Session {
    switch self {
    case .access(_, let session), .refresh(_, let session): session
    }
  }
}

extension AuthHandlers {
  /// Nil for what is no genuine token of ours and for one whose session is no longer on record. The session may have
  /// ended.
  ///
  /// Errors: `OTHER_CELL` for one of another cell, which is asked about there.
  func tokenSession(_ text: String) async throws(RPCError) -> TokenSession? {
    if let token = RefreshToken(text) {
      try cell.requireSame(token.session.cell)
      guard let session = try await session(token.session), tokens.refresh.isGenuine(token, of: session) else {
        return nil
      }
      return .refresh(token, session)
    }
    guard let claims = try tokens.genuine(text, at: clock.now()), let id = SessionID(claims.sessionID),
      let session = try await session(id)
    else { return nil }
    return .access(claims, session)
  }

  func session(_ id: SessionID) async throws(RPCError) -> Session? {
    try await look(FindSession(id))
  }
}
