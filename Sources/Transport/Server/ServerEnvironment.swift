internal import GRPC
internal import Logging
internal import NIOCore

/// What all connections of a server share.
final class ServerEnvironment: Sendable {
  let configuration: RPCServer.Configuration
  let router: Router
  let interceptors: [any ServerInterceptor]
  let pages: PageTable
  let statusDetailsEncoder: RPCServer.StatusDetailsEncoder
  let logger: Logger

  init(
    configuration: RPCServer.Configuration,
    router: Router,
    interceptors: [any ServerInterceptor],
    pages: PageTable,
    statusDetailsEncoder: @escaping RPCServer.StatusDetailsEncoder,
    logger: Logger
  ) {
    self.configuration = configuration
    self.router = router
    self.interceptors = interceptors
    self.pages = pages
    self.statusDetailsEncoder = statusDetailsEncoder
    self.logger = logger
  }
}
