/// One line of the table of methods: who may call a method, and what their token must be good for (R45). Each service
/// says it for every method in an exhaustive switch.
package struct AccessPolicy: Sendable, Equatable {
  /// Whose access token is taken.
  package enum Persons: String, Sendable, Equatable {
    case nobody
    /// An account's: a guest is told `LOGIN_REQUIRED`.
    case account
    /// A guest's or an account's.
    case subject
    /// None is needed. One that holds still names the caller; one that does not is ignored.
    case anyone
  }

  /// Which Latchkey services may call.
  package enum Services: Sendable, Equatable {
    case none
    case all
    /// Of those that prove which one they are (by certificate, R41) only these.
    case only(Set<PeerService>)
  }

  /// What a call needs besides, depending on what it asks for: its handler looks.
  package struct Condition: Sendable, Equatable {
    package let when: String
    package let requirement: AccessRequirement
  }

  package let persons: Persons
  package let services: Services
  package let requirement: AccessRequirement
  package private(set) var conditions: [Condition] = []

  private init(
    _ persons: Persons, _ services: Services, _ requirement: AccessRequirement = AccessRequirement(nil)
  ) {
    self.persons = persons
    self.services = services
    self.requirement = requirement
  }

  /// Anyone.
  package static let open = AccessPolicy(.anyone, .none)

  /// A guest or an account.
  package static func subject(
    _ scope: AccessRequirement.ScopeWord?, _ asks: AccessRequirement.Ask...
  ) -> AccessPolicy {
    AccessPolicy(.subject, .none, AccessRequirement(scope, asks))
  }

  /// An account.
  package static func account(
    _ scope: AccessRequirement.ScopeWord?, _ asks: AccessRequirement.Ask...
  ) -> AccessPolicy {
    AccessPolicy(.account, .none, AccessRequirement(scope, asks))
  }

  /// Another Latchkey service, never a user's token.
  package static let service = AccessPolicy(.nobody, .all)

  package static func services(_ services: Set<PeerService>) -> AccessPolicy { AccessPolicy(.nobody, .only(services)) }

  /// The same, or another service on their behalf.
  package var orService: AccessPolicy {
    var policy = AccessPolicy(persons, .all, requirement)
    policy.conditions = conditions
    return policy
  }

  /// The same, and more when the call asks for more.
  package func and(_ requirement: AccessRequirement, when: String) -> AccessPolicy {
    var policy = self
    policy.conditions.append(Condition(when: when, requirement: requirement))
    return policy
  }

  var admitsService: Bool { services != .none }

  /// Whether a service that proved to be `service` may call.
  func admits(_ service: PeerService) -> Bool {
    switch services {
    case .none: false
    case .all: true
    case .only(let named): named.contains(service)
    }
  }

  /// Whether nobody but services may call.
  var isForServicesOnly: Bool { persons == .nobody }

  var isOpen: Bool { persons == .anyone }

  var refusesGuests: Bool { persons == .account }
}
