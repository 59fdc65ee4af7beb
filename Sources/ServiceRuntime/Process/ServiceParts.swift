package import GRPC
package import TransportServer

/// What a service consists of once it is made: what it serves, who may call it, and what runs beside it.
package struct ServiceParts: Sendable {
  /// Where the keys come from that verify callers' tokens.
  package enum TokenKeys: Sendable {
    /// From the identity service, over the network.
    case fetched
    /// The identity service's own.
    case own(any VerificationKeys)
  }

  package var routes: [RPCRoute]
  package var policies: AccessPolicies
  /// Pages of the gRPC port.
  package var pages: [Page] = []
  package var tokenKeys: TokenKeys
  /// Who knows which sessions have ended; nil lets identity tell it.
  package var sessions: (any SessionAuthority)?
  /// Run before authentication, so that they see also the calls that it refuses.
  package var observers: [any ServerInterceptor] = []
  /// Run after authentication.
  package var interceptors: [any ServerInterceptor] = []
  package var tasks: [BackgroundTask] = []
  /// What keeps the service from working right now, in a few words; nil when nothing does. Asked several times a
  /// second.
  package var obstacle: @Sendable () -> String? = { nil }
  /// This instance among others; nil where it is alone.
  package var membership: Membership?
  /// Called on SIGHUP: reads again what an operator may have replaced.
  package var reload: @Sendable () -> Void = {}
  /// Called when the drain begins, before connections are closed: ends calls that would wait for something.
  package var drain: @Sendable () -> Void = {}
  /// Runs last, when no call and no task runs any more: closes databases.
  package var close: @Sendable () async -> Void = {}

  package init(routes: [RPCRoute], policies: AccessPolicies, tokenKeys: TokenKeys = .fetched) {
    self.routes = routes
    self.policies = policies
    self.tokenKeys = tokenKeys
  }
}
