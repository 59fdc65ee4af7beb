/// What leads to an account: an e-mail address, a phone number or a user name that a person types, the name that an app
/// made for itself, or who somebody is at an OpenID provider.
///
/// The kinds that are typed cannot be confused: only an e-mail address holds `@`, only a phone number begins with `+`,
/// and a user name begins with a letter. The others are never read from what somebody typed.
package enum AccountIdentifier: Sendable, Hashable {
  case email(EmailAddress)
  case phone(PhoneNumber)
  case userName(UserName)
  case customID(CustomID)
  case federated(FederatedID)

  /// Longest text looked at.
  package static let maximumLength = 254

  /// What a person typed; nil for what is none of the three kinds that one types.
  package init?(_ text: String) {
    guard text.utf8.count <= Self.maximumLength else { return nil }
    if text.utf8.contains(UInt8(ascii: "@")) {
      guard let email = EmailAddress(text) else { return nil }
      self = .email(email)
    } else if text.utf8.first == UInt8(ascii: "+") {
      guard let phone = PhoneNumber(text) else { return nil }
      self = .phone(phone)
    } else {
      guard let userName = UserName(text) else { return nil }
      self = .userName(userName)
    }
  }

  /// The kind as it is stored: never renumbered.
  package enum Kind: Int64, Sendable, CaseIterable {
    case email = 1
    case phone = 2
    case userName = 3
    case customID = 4
    case oidc = 5

    /// Whether a message can be sent to it: an address may be somebody else's than who says it.
    package var isAddress: Bool {
      switch self {
      case .email, .phone: true
      case .userName, .customID, .oidc: false
      }
    }

    /// As it appears in messages.
    package var name: String {
      switch self {
      case .email: "email"
      case .phone: "phone"
      case .userName: "user_name"
      case .customID: "custom_id"
      case .oidc: "oidc"
      }
    }
  }

  package var kind: Kind {
    switch self {
    case .email: .email
    case .phone: .phone
    case .userName: .userName
    case .customID: .customID
    case .federated: .oidc
    }
  }

  /// The one text that every spelling of this identifier is stored and looked up as.
  package var canonical: String {
    switch self {
    case .email(let email): email.canonical
    case .phone(let phone): phone.description
    case .userName(let name): name.canonical
    case .customID(let id): id.description
    case .federated(let id): id.canonical
    }
  }

  /// Enough for its owner to recognise, too little for anyone else to use.
  package var mask: String {
    switch self {
    case .email(let email): email.mask
    case .phone(let phone): phone.mask
    case .userName(let name): name.mask
    case .customID(let id): id.mask
    case .federated(let id): id.provider
    }
  }

  /// Whether a message can be sent to it.
  package var isAddress: Bool { kind.isAddress }
}
