internal import Callers
package import GRPC
package import LatchkeyModel

/// Who watches.
package struct WatchHolder: Sendable {
  package let subject: SubjectID
  /// Nil for another service, which has none.
  package let session: SessionID?
  /// The key that the session's tokens are bound to, or the session where they are bound to none.
  package let device: String
  package let source: String

  package init(subject: SubjectID, session: SessionID, device: String? = nil, source: String = "") {
    self.subject = subject
    self.session = session
    self.device = device ?? session.description
    self.source = source
  }

  /// Another service at `source` that watches what is `subject`'s: it counts as one of the subject's devices.
  package init(service source: String, of subject: SubjectID) {
    self.subject = subject
    session = nil
    device = "service \(source)"
    self.source = source
  }
}

extension ServerContext {
  /// The caller as one who watches.
  ///
  /// - Parameter owner: whose what is watched is, in a method that services may call as well.
  ///
  /// Errors: `UNAUTHENTICATED` for a subject or a session that identity never gave out, and for a caller that is no
  /// subject where only subjects may call.
  package func watchHolder(of owner: SubjectID? = nil) throws(RPCError) -> WatchHolder {
    let source = NetworkAddress(peer.address).map { "\($0.source)" } ?? ""
    if case .service = caller, let owner { return WatchHolder(service: source, of: owner) }
    let claimed = try requireSubject()
    guard let subject = SubjectID(claimed.subject), let session = SessionID(claimed.sessionID) else {
      throw RPCError(.unauthenticated, "the access token does not hold", reason: "TOKEN_INVALID")
    }
    return WatchHolder(subject: subject, session: session, device: claimed.keyThumbprint, source: source)
  }
}
