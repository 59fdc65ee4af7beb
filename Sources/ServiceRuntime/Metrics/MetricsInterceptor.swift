internal import CoreMetrics
package import GRPC

/// Counts calls by method and code, and times them by method.
package struct MetricsInterceptor: ServerInterceptor {
  private struct Series: Sendable {
    /// One for each status code, by its number.
    let finished: [Counter]
    let latency: PrometheusHistogram
  }

  private let series: [RPCMethod: Series]

  /// - Parameter methods: what the server answers. Made now, so that a call looks nothing up but its method, and a
  ///   scraper sees zeros from the start.
  package init(methods: [RPCMethod], factory: PrometheusRegistry) {
    var series: [RPCMethod: Series] = [:]
    for method in methods {
      // "/latchkey.qr.v1.QrSessionService/PollSession"
      let parts = method.path.split(separator: "/").map(String.init)
      let dimensions = [("service", parts.first ?? ""), ("method", parts.last ?? "")]
      let latency = factory.makeHistogram(label: "rpc_duration", dimensions: dimensions)
      series[method] = Series(
        finished: StatusCode.allCases.map { code in
          Counter(label: "rpc_finished", dimensions: dimensions + [("code", "\(code)")], factory: factory)
        },
        latency: latency
      )
    }
    self.series = series
  }

  package func directCalls(_ context: ServerContext) -> DirectCallVerdict {
    guard let series = series[context.method] else { return .pass() }
    return .count(Tally(finished: series.finished[StatusCode.ok.rawValue], latency: series.latency))
  }

  private struct Tally: CallTally {
    let finished: Counter
    let latency: PrometheusHistogram

    func add(_ calls: Int, nanoseconds: Int64) {
      finished.increment(by: calls)
      latency.record(nanoseconds, times: Int64(calls))
    }
  }

  package func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {
    guard let series = series[context.method] else { return }
    series.finished[status.rawValue].increment()
    let (seconds, attoseconds) = duration.components
    series.latency.recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
  }
}
