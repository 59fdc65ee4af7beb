internal import LatchkeyModel

/// What is fixed about a service before it is configured.
package struct ServiceDescription: Sendable {
  /// The executable's name, such as `latchkey-qr`; also the audience that its access tokens must name (R9).
  package let name: String
  package let port: Int
  package let managementPort: Int
  /// The keys that this service reads besides ``CommonKeys``.
  package let keys: [ConfigurationDeclaration]
  /// The defaults of keys, by name, for a service that runs with `dev`.
  package let development: [String: ConfigurationValue]
  /// Says in which cell identity is, for a service that may be in another.
  package let identityCell: ConfigurationKey<Int>
  /// Who may call which of its methods, besides those that every service has.
  package let policies: AccessPolicies

  package init(
    name: String,
    port: Int,
    managementPort: Int,
    keys: [ConfigurationDeclaration] = [],
    development: [String: ConfigurationValue] = [:],
    identityCell: ConfigurationKey<Int> = CommonKeys.cell,
    policies: AccessPolicies = AccessPolicies()
  ) {
    self.name = name
    self.port = port
    self.managementPort = managementPort
    self.keys = keys
    self.development = development
    self.identityCell = identityCell
    self.policies = policies
    precondition(
      development.keys.allSatisfy { name in keys.contains { $0.name == name } }, "a value is for a key of the service")
  }

  func cells(_ configuration: ServiceConfiguration) -> Cells {
    Cells(own: Cell(UInt16(configuration[CommonKeys.cell])), identity: Cell(UInt16(configuration[identityCell])))
  }

  var declarations: [ConfigurationDeclaration] { CommonKeys.declarations(for: self) + keys }
}
