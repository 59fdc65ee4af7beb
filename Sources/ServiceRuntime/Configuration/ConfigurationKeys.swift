/// The keys of a service, each of them one property, which says its name, its default, its range and its help:
///
///     package struct IdentityKeys: ConfigurationKeys {
///       package let guestLimit = ConfigurationKey.integer(
///         "guest.limit", default: 10_000_000, in: 1...1_000_000_000, help: "guests beyond which no new one is made")
///
///       package init() {}
///     }
///
/// The service's ``ServiceDescription`` names the type, and ``Configured`` has the values: `configuration.guestLimit`.
package protocol ConfigurationKeys: Sendable {
  init()
}

extension ConfigurationKeys {
  /// What is declared, in the order of the properties.
  package var declarations: [ConfigurationDeclaration] {
    Mirror(reflecting: self).children.map { property in
      guard let key = property.value as? any DeclaredKey else {
        preconditionFailure("\(property.label ?? "a property") of \(Self.self) is no key")
      }
      return key.declaration
    }
  }
}

/// A key whatever the type of its values.
protocol DeclaredKey {
  var declaration: ConfigurationDeclaration { get }
}

extension ConfigurationKey: DeclaredKey {}

/// The effective values of a service's own keys, by the properties that declare them.
@dynamicMemberLookup
package struct Configured<Keys: ConfigurationKeys>: Sendable {
  /// The values of every key, those that all services have as well.
  package let service: ServiceConfiguration
  private let keys = Keys()

  package init(_ service: ServiceConfiguration) {
    self.service = service
  }

  package subscript<Value: Sendable>(dynamicMember key: KeyPath<Keys, ConfigurationKey<Value>>) -> Value {
    service[keys[keyPath: key]]
  }
}
