internal import Callers
internal import GRPC
internal import HTTP2
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
  private let commonAnswers: [HTTP2CommonAnswer]
  /// By the methods' paths.
  private let gates: [String: CallGate]

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
    gates = Dictionary(uniqueKeysWithValues: router.methods.map { ($0.path, CallGate()) })
    commonAnswers = ServerFields.commonAnswers(refusing: ServerBudget.refusals, statusDetailsEncoder)
  }

  /// The fields that a connection's answers share. Not all connections tell those whom they refuse to come back after
  /// the same time.
  var commonAnswer: HTTP2CommonAnswer { commonAnswers.randomElement() ?? ServerFields.common }

  /// The door of a method's calls.
  func gate(of method: RPCMethod) -> CallGate? { gates[method.path] }

  /// A proxy has said whose a connection is. False: its source has no place for it.
  func connectionMoved(_ channel: any Channel, to address: NetworkAddress) -> Bool {
    switch budget.table.move(channel, to: address) {
    case .admitted: return true
    case .inPlaceOf(let other):
      makeGo(other)
      return true
    case .refused: return false
    }
  }

  /// Keeps a connection for which there is no place for a moment, so that its calls are told why. False: there are
  /// many of them, and this one has to be closed at once.
  func turnAway(_ channel: any Channel) -> Bool {
    budget.connectionRefused()
    guard budget.mayTurnAway() else { return false }
    channel.eventLoop.scheduleTask(in: Limits.turnedAwayTime) {
      channel.pipeline.fireUserInboundEventTriggered(ServerDisplacement())
    }
    return true
  }

  /// Another source has the connection's place.
  func makeGo(_ channel: any Channel) {
    budget.connectionRefused()
    channel.eventLoop.execute { channel.pipeline.fireUserInboundEventTriggered(ServerDisplacement()) }
  }

  /// Answers a request for a page, if there is room for it.
  /// - Parameter hasPlace: whether the request has a call's place, and need not be given one.
  func answer(_ request: PageRequest, _ account: SourceAccount, hasPlace: Bool = false) async -> PageResponse {
    guard hasPlace || request.path == Page.health.path || budget.hasRoom(for: account) else {
      return noRoomPage(request.header("origin"))
    }
    return await CallPlace.$current.withValue(CallPlace(holder: account.source)) { await pages.answer(request) }
  }
}

extension ServerEnvironment {
  /// What is told to who asks something of a page when there is too much to do.
  func latePage(_ origin: String?) -> PageResponse {
    // Who were refused together do not all come back together.
    refusal("the server has more to do than it can do in time\n", Bool.random() ? "1" : "2", origin)
  }

  /// What a request for a page is told for which there is no room.
  func noRoomPage(_ origin: String?) -> PageResponse { refusal("no room for this request now\n", "1", origin) }

  private func refusal(_ text: String, _ seconds: String, _ origin: String?) -> PageResponse {
    var response = PageResponse(status: 503, text: text)
    response.headers.append(("retry-after", seconds))
    response.headers += pages.cors.fields(origin: origin, exposing: ["retry-after"])
    return response
  }
}

extension PageResponse {
  static var tooLarge: PageResponse { PageResponse(status: 413, text: "too large\n") }
}
