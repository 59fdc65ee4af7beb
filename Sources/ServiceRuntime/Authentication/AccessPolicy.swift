/// Who may call a method. Each service says it for every method in an exhaustive switch.
package enum AccessPolicy: Sendable, Equatable, CaseIterable {
  /// Anyone. A token that holds still names the caller; one that does not is ignored.
  case open
  /// A guest or an account.
  case subject
  /// An account: a guest is told `LOGIN_REQUIRED`.
  case account
  /// Another Latchkey service, never a user's token.
  case service
  /// A guest or an account, or another service on their behalf.
  case subjectOrService
  /// An account, or another service on its behalf.
  case accountOrService

  var admitsService: Bool {
    switch self {
    case .open, .subject, .account: false
    case .service, .subjectOrService, .accountOrService: true
    }
  }

  var refusesGuests: Bool {
    switch self {
    case .open, .subject, .service, .subjectOrService: false
    case .account, .accountOrService: true
    }
  }
}
