/// The services of an installation, as they call each other.
package enum PeerService: String, Sendable, CaseIterable {
  case identity = "latchkey-identity"
  case qr = "latchkey-qr"
  case migrator = "latchkey-migrator"

  func address(_ configuration: ServiceConfiguration) -> Endpoint {
    switch self {
    case .identity: configuration[CommonKeys.identityAddress]
    case .qr: configuration[CommonKeys.qrAddress]
    case .migrator: configuration[CommonKeys.migratorAddress]
    }
  }
}
