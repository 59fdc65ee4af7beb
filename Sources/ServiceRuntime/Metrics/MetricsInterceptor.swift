package import GRPC
internal import Synchronization

/// Counts calls by method and code, and times them by method, under the names that gRPC's dashboards know:
/// `grpc_server_started_total`, `grpc_server_handled_total` and `grpc_server_handling_seconds`.
///
/// Source: go-grpc-middleware's Prometheus provider, whose names and labels most dashboards for gRPC are written for.
package struct MetricsInterceptor: ServerInterceptor {
  private let series: [RPCMethod: MethodSeries]

  /// - Parameter methods: what the server answers. Looked up by a call, and by nothing else; a method's series come
  ///   about with its first call, so that a scrape is as long as what is used.
  package init(methods: [RPCMethod], factory: PrometheusRegistry) {
    factory.describe("grpc_server_started_total", "Calls that the server began to answer.")
    factory.describe("grpc_server_handled_total", "Calls that ended, by their status code.")
    factory.describe("grpc_server_handling_seconds", "How long calls took, from their headers to their status.")
    series = Dictionary(uniqueKeysWithValues: methods.map { ($0, MethodSeries($0, factory)) })
  }

  package func willHandle(_ context: ServerContext) throws(RPCError) {
    series[context.method]?.started.increment(by: 1)
  }

  package func directCalls(_ context: ServerContext) -> DirectCallVerdict {
    guard let series = series[context.method] else { return .pass() }
    return .count(
      Tally(started: series.started, finished: series.handled(.ok), latency: series.latency))
  }

  /// A class: each pass of a connection asks for it, and one reference is counted in place of three.
  private final class Tally: CallTally {
    let started: PrometheusCounter
    let finished: PrometheusCounter
    let latency: PrometheusHistogram

    init(started: PrometheusCounter, finished: PrometheusCounter, latency: PrometheusHistogram) {
      self.started = started
      self.finished = finished
      self.latency = latency
    }

    func add(_ calls: Int, nanoseconds: Int64) {
      started.increment(by: Int64(calls))
      finished.increment(by: Int64(calls))
      latency.record(nanoseconds, times: Int64(calls))
    }
  }

  /// They took no time worth a place in the histogram.
  package func didRefuse(_ calls: Int, of method: RPCMethod, status: StatusCode) {
    guard let series = series[method] else { return }
    series.started.increment(by: Int64(calls))
    series.handled(status).increment(by: Int64(calls))
  }

  package func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {
    guard let series = series[context.method] else { return }
    series.handled(status).increment(by: 1)
    let (seconds, attoseconds) = duration.components
    series.latency.recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
  }
}

/// The series of one method, each made when it is first needed.
private final class MethodSeries: Sendable {
  private let factory: PrometheusRegistry
  private let dimensions: [(String, String)]
  private let firstStarted = AtomicLazyReference<PrometheusCounter>()
  private let firstLatency = AtomicLazyReference<PrometheusHistogram>()
  /// One for each status code, by its number.
  private let firstHandled: [Slot]

  private final class Slot: Sendable {
    let counter = AtomicLazyReference<PrometheusCounter>()
  }

  init(_ method: RPCMethod, _ factory: PrometheusRegistry) {
    // "/latchkey.qr.v1.QrSessionService/PollSession"
    let parts = method.path.split(separator: "/").map(String.init)
    self.factory = factory
    dimensions = [
      ("grpc_type", method.kind.metricLabel), ("grpc_service", parts.first ?? ""), ("grpc_method", parts.last ?? ""),
    ]
    firstHandled = StatusCode.allCases.map { _ in Slot() }
  }

  var started: PrometheusCounter {
    firstStarted.load() ?? firstStarted.storeIfNil(factory.counter("grpc_server_started_total", dimensions))
  }

  var latency: PrometheusHistogram {
    firstLatency.load()
      ?? firstLatency.storeIfNil(factory.makeHistogram(label: "grpc_server_handling", dimensions: dimensions))
  }

  func handled(_ status: StatusCode) -> PrometheusCounter {
    let slot = firstHandled[status.rawValue]
    if let counter = slot.counter.load() { return counter }
    let labelled = dimensions + [("grpc_code", status.metricLabel)]
    return slot.counter.storeIfNil(factory.counter("grpc_server_handled_total", labelled))
  }
}

extension RPCKind {
  fileprivate var metricLabel: String {
    switch self {
    case .unary: "unary"
    case .serverStreaming: "server_stream"
    case .clientStreaming: "client_stream"
    case .bidirectional: "bidi_stream"
    }
  }
}

extension StatusCode {
  /// As gRPC for Go writes it, which dashboards compare with.
  fileprivate var metricLabel: String {
    switch self {
    case .ok: "OK"
    case .cancelled: "Canceled"
    case .unknown: "Unknown"
    case .invalidArgument: "InvalidArgument"
    case .deadlineExceeded: "DeadlineExceeded"
    case .notFound: "NotFound"
    case .alreadyExists: "AlreadyExists"
    case .permissionDenied: "PermissionDenied"
    case .resourceExhausted: "ResourceExhausted"
    case .failedPrecondition: "FailedPrecondition"
    case .aborted: "Aborted"
    case .outOfRange: "OutOfRange"
    case .unimplemented: "Unimplemented"
    case .internal: "Internal"
    case .unavailable: "Unavailable"
    case .dataLoss: "DataLoss"
    case .unauthenticated: "Unauthenticated"
    }
  }
}
