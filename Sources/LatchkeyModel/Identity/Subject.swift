/// A guest or an account, as it is stored.
///
///     guest ──promote──▶ account          the sub stays, so the data stays
///     guest ──merge────▶ merged(account)  the sub resolves to the account from then on
package struct Subject: Sendable, Equatable {
  package enum Kind: Sendable, Equatable {
    case guest
    case account
    /// Its data moved into this account; it can do nothing any more.
    case merged(into: SubjectID)
  }

  package let id: SubjectID
  package private(set) var kind: Kind
  package let createdAt: Timestamp
  package var profile: Profile

  package init(id: SubjectID, kind: Kind, createdAt: Timestamp, profile: Profile = Profile()) {
    self.id = id
    self.kind = kind
    self.createdAt = createdAt
    self.profile = profile
  }

  package var isGuest: Bool { kind == .guest }
  package var isAccount: Bool { kind == .account }

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
    case .merged: return .refused
    }
  }

  /// The guest's data has moved into `account`.
  package mutating func merge(into account: SubjectID) -> Transition {
    switch kind {
    case .guest where account != id:
      kind = .merged(into: account)
      return .done
    case .merged(account): return .already
    case .guest, .account, .merged: return .refused
    }
  }
}
