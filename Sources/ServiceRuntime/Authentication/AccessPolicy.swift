/// Who may call a method. Each service says it for every method in an exhaustive switch.
package enum AccessPolicy: Sendable, Equatable {
  /// Anyone. A token that holds still names the caller; one that does not is ignored.
  case open
  /// A guest or an account.
  case subject
  /// An account: a guest is told `LOGIN_REQUIRED`.
  case account
  /// Another Latchkey service, never a user's token.
  case service
  /// Another Latchkey service, and of those that prove which one they are (by certificate, R41) only these.
  case services(Set<PeerService>)
  /// A guest or an account, or another service on their behalf.
  case subjectOrService
  /// An account, or another service on its behalf.
  case accountOrService

  var admitsService: Bool {
    switch self {
    case .open, .subject, .account: false
    case .service, .services, .subjectOrService, .accountOrService: true
    }
  }

  /// Whether a service that proved to be `service` may call.
  func admits(_ service: PeerService) -> Bool {
    if case .services(let named) = self { return named.contains(service) }
    return admitsService
  }

  /// Whether nobody but services may call.
  var isForServicesOnly: Bool {
    switch self {
    case .service, .services: true
    case .open, .subject, .account, .subjectOrService, .accountOrService: false
    }
  }

  var refusesGuests: Bool {
    switch self {
    case .open, .subject, .service, .services, .subjectOrService: false
    case .account, .accountOrService: true
    }
  }
}
