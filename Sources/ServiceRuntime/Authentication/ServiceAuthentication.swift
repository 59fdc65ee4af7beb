/// How the services of an installation prove themselves to each other.
package enum ServiceAuthentication: String, Sendable, CaseIterable {
  /// By a secret that all of them share.
  case token
  /// By the certificate of the connection (mutual TLS): it says which service calls.
  case certificate
}
