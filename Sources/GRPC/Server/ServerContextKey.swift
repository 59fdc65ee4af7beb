/// Names one typed value that travels with a call, such as the authenticated caller that an interceptor found.
///
///     enum CallerKey: ServerContextKey { typealias Value = Caller }
///     context[CallerKey.self] = caller
package protocol ServerContextKey {
  associatedtype Value: Sendable
}
