/// The environment variables of every service's own keys.
///
/// The services of one installation are often given one environment: a variable of another service is then no mistake,
/// while one that no service reads is. A service knows the declarations of its own keys only, so all the names stand
/// here, written by `Tests/Tools/configuration-reference`; each service's tests compare them with what it declares.
package enum InstallationKeys {
  /// The variables of `service`'s keys, besides ``CommonKeys``, without the prefix.
  package static func variables(of service: PeerService) -> [String] { generated[service] ?? [] }

  /// Those of all services.
  static let environmentNames = Set(PeerService.allCases.flatMap { variables(of: $0) })
}
