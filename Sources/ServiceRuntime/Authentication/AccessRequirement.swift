package import GRPC
package import LatchkeyModel

/// What a person's token must be good for.
package struct AccessRequirement: Sendable, Equatable {
  /// A word of an account's scope. A guest has no other than `basic`, which is then what is asked of it.
  package enum ScopeWord: String, Sendable, CaseIterable {
    case basic
    case profile
    case account
  }

  package enum Ask: Sendable {
    /// The person proved who they are at most ``StepUpPolicy/maximumAge`` ago (R46).
    case recentProof
    /// The session is one that its owner began or said to be theirs.
    case confirmed
  }

  /// Nil where any scope will do, also an empty one.
  package let scope: ScopeWord?
  package let needsRecentProof: Bool
  package let needsConfirmation: Bool

  package init(_ scope: ScopeWord?, _ asks: Ask...) {
    self.init(scope, asks)
  }

  init(_ scope: ScopeWord?, _ asks: [Ask]) {
    self.scope = scope
    needsRecentProof = asks.contains(.recentProof)
    needsConfirmation = asks.contains(.confirmed)
  }

  /// Refuses a caller whose token is not good for it.
  ///
  /// Errors: `PERMISSION_DENIED` with `INSUFFICIENT_SCOPE` or `SESSION_UNCONFIRMED`, `UNAUTHENTICATED` with
  /// `STEP_UP_REQUIRED` (RFC 9470 section 3), in this order, but for the last two: a step-up confirms a session as well.
  package func check(
    _ caller: AuthenticatedSubject, _ stepUp: StepUpPolicy, at now: Timestamp
  ) throws(RPCError) {
    if let scope {
      let word = caller.isGuest ? .basic : scope
      guard caller.hasScope(word.rawValue) else { throw .insufficientScope(word) }
    }
    if needsRecentProof {
      guard stepUp.isRecent(caller.authenticatedAt, at: now) else { throw stepUp.required(ofGuest: caller.isGuest) }
    }
    if needsConfirmation {
      guard caller.isConfirmed else { throw .sessionUnconfirmed }
    }
  }
}

extension RPCError {
  static func insufficientScope(_ word: AccessRequirement.ScopeWord) -> RPCError {
    RPCError(
      .permissionDenied,
      "the token lacks the scope \(word.rawValue)",
      reason: "INSUFFICIENT_SCOPE",
      info: [KeyValue("scope", word.rawValue)]
    )
  }

  /// To a session that a code or a transfer began, until its owner stands by it.
  package static var sessionUnconfirmed: RPCError {
    RPCError(
      .permissionDenied,
      "a code began this session: its owner confirms it from another one, or steps up here, first",
      reason: "SESSION_UNCONFIRMED"
    )
  }
}
