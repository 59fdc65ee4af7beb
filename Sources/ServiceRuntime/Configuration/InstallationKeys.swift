/// The names of every service's own keys.
///
/// The services of one installation are often given one environment: a variable of another service is then no mistake,
/// while one that no service reads is. A service knows the declarations of its own keys only, so all the names stand
/// here, written by `Tests/Tools/configuration-reference`; each service's tests compare them with what it declares.
package enum InstallationKeys {
  /// The names of `service`'s keys, besides ``CommonKeys``.
  package static func names(of service: PeerService) -> [String] { generatedNames[service] ?? [] }

  /// The environment variables of all of them, without the prefix.
  static let environmentNames = Set(
    PeerService.allCases.flatMap { names(of: $0) }.map(ConfigurationName.environment)
  )
}
