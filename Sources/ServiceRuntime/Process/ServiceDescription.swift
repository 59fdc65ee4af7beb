/// What is fixed about a service before it is configured.
package struct ServiceDescription: Sendable {
  /// The executable's name, such as `latchkey-qr`; also the audience that its access tokens must name (R9).
  package let name: String
  package let port: Int
  package let managementPort: Int
  /// The keys that this service reads besides ``CommonKeys``.
  package let keys: [ConfigurationDeclaration]

  package init(name: String, port: Int, managementPort: Int, keys: [ConfigurationDeclaration] = []) {
    self.name = name
    self.port = port
    self.managementPort = managementPort
    self.keys = keys
  }

  var declarations: [ConfigurationDeclaration] { CommonKeys.declarations(for: self) + keys }
}
