internal import Callers
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
  let budget: ServerBudget

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
    budget = ServerBudget(configuration.budget)
  }

  /// A proxy has said whose a connection is.
  func connectionMoved(_ channel: any Channel, to address: NetworkAddress) {
    switch budget.table.move(channel, to: address) {
    case .admitted: break
    case .inPlaceOf(let other): makeGo(other)
    case .refused:
      budget.connectionRefused()
      channel.close(promise: nil)
    }
  }

  /// Another source has the connection's place.
  func makeGo(_ channel: any Channel) {
    budget.connectionRefused()
    channel.eventLoop.execute { channel.pipeline.fireUserInboundEventTriggered(ServerDisplacement()) }
  }

  /// Answers a request for a page, if there is room for it.
  func answer(_ request: PageRequest, _ account: SourceAccount) async -> PageResponse {
    guard request.path == Page.health.path || budget.hasRoom(for: account) else { return .noRoom }
    return await pages.answer(request)
  }
}

extension PageResponse {
  /// What a request for a page is told for which there is no room.
  static var noRoom: PageResponse {
    var response = PageResponse(status: 503, text: "no room for this request now\n")
    response.headers.append(("retry-after", "1"))
    return response
  }

  static var tooLarge: PageResponse { PageResponse(status: 413, text: "too large\n") }
}
