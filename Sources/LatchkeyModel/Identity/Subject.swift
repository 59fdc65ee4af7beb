/// A guest or an account, as it is stored.
///
///     guest ──promote──▶ account          the sub stays, so the data stays
///     guest ──merge────▶ merged(account)  the sub resolves to the account from then on
///     merged(account) ──restore──▶ guest  the merge was taken back
///     guest, account ──delete──▶ deleted  for good
package struct Subject: Sendable, Equatable {
  package enum Kind: Sendable, Equatable {
    case guest
    case account
    /// Its data moved into this account; it can do nothing any more.
    case merged(into: SubjectID)
    /// Forgotten. Nobody else ever gets this id (R10).
    case deleted
  }

  package let id: SubjectID
  package private(set) var kind: Kind
  package let createdAt: Timestamp
  package var profile: Profile
  /// Since when somebody who runs the service keeps it from signing in.
  package var disabledAt: Timestamp?

  package init(
    id: SubjectID,
    kind: Kind,
    createdAt: Timestamp,
    profile: Profile = Profile(),
    disabledAt: Timestamp? = nil
  ) {
    self.id = id
    self.kind = kind
    self.createdAt = createdAt
    self.profile = profile
    self.disabledAt = disabledAt
  }

  package var isGuest: Bool { kind == .guest }
  package var isAccount: Bool { kind == .account }

  package var isDisabled: Bool { disabledAt != nil }
  /// Whether sessions of it may begin.
  package var isUsable: Bool { (isGuest || isAccount) && !isDisabled }

  /// Where an answer about this subject is to be looked for.
  package var resolved: SubjectID {
    if case .merged(let account) = kind { account } else { id }
  }

  /// What came of an attempt to change the kind.
  package enum Transition: Sendable, Equatable {
    case done
    /// It was so already: a repeated request.
    case already
    case refused
  }

  /// The guest's identity is new: it becomes an account in place.
  package mutating func promote() -> Transition {
    switch kind {
    case .guest:
      kind = .account
      return .done
    case .account: return .already
    case .merged, .deleted: return .refused
    }
  }

  /// The guest's data has moved into `account`.
  package mutating func merge(into account: SubjectID) -> Transition {
    switch kind {
    case .guest where account != id:
      kind = .merged(into: account)
      return .done
    case .merged(account): return .already
    case .guest, .account, .merged, .deleted: return .refused
    }
  }

  /// The merge into `account` is taken back.
  package mutating func restore(from account: SubjectID) -> Transition {
    switch kind {
    case .merged(account):
      kind = .guest
      return .done
    case .guest: return .already
    case .account, .merged, .deleted: return .refused
    }
  }
}
