import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuthHandlers {
  /// Ends the caller's session, the others of the same subject, or all of them. With next GUEST the answer holds the
  /// tokens of this device's guest: the same guest as before the sign-in, unless it became the account or went into it.
  package func logout(
    _ request: IdentityV1.LogoutRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.LogoutResponse {
    let reach = try Self.reach(request.scope)
    let wantsGuest = try Self.wantsGuest(request.next)
    if wantsGuest, reach == .others {
      throw .invalid("next", "GUEST makes no sense when the caller stays signed in")
    }
    let caller = try context.callerSession()
    if reach != .local { try callers.require(IdentityAccess.ownersWord, of: context) }
    let now = clock.now()
    let issuing = wantsGuest ? try tokens.issuing() : nil
    var nextGuest: LogOut.NextGuest?
    if wantsGuest {
      guard let session = try await session(caller) else { throw .sessionRevoked }
      // Bound to the same key, which this very call has proven.
      nextGuest = LogOut.NextGuest(
        newSubject: SubjectID(from: random),
        draft: SessionDraft(
          client: session.client,
          method: .guest,
          label: session.device.label,
          platform: session.device.platform,
          address: context.peer.address,
          boundKeyThumbprint: session.boundKeyThumbprint,
          lifetimes: tokens.lifetimes,
          at: now,
          random: random
        )
      )
    }
    let logOut = LogOut(session: caller, reach: reach, nextGuest: nextGuest, now: now)
    switch try await perform(logOut) {
    case .sessionEnded: throw .sessionRevoked
    case .unconfirmed: throw .sessionUnconfirmed
    case .noDevice:
      throw RPCError(
        .failedPrecondition, "this device has shown no key, so it has no guest: log out with next NONE",
        reason: "DEVICE_KEY_REQUIRED")
    case .loggedOut(let ended, let guest):
      var response = IdentityV1.LogoutResponse(sessionsEnded: Int64(ended))
      if let session = guest?.session, let issuing {
        response.tokens = try issuing.tokens(of: session, at: now)
        response.subject = CommonV1.Subject(session)
        response.storageNamespace = session.subject.storageNamespace
      }
      return response
    }
  }

  private static func reach(_ scope: IdentityV1.LogoutScope) throws(RPCError) -> LogOut.Reach {
    switch scope {
    case .unspecified, .local: .local
    case .others: .others
    case .global: .global
    case .unrecognized: throw .invalid("scope", "must be LOCAL, OTHERS or GLOBAL")
    }
  }

  private static func wantsGuest(_ next: IdentityV1.LogoutNext) throws(RPCError) -> Bool {
    switch next {
    case .unspecified, .none: false
    case .guest: true
    case .unrecognized: throw .invalid("next", "must be NONE or GUEST")
    }
  }
}
