internal import TransportServer

/// The pages of the management port, for probes and scrapers that speak no gRPC.
enum ManagementPages {
  static func make(metrics: PrometheusRegistry, readiness: ReadinessMonitor) -> [Page] {
    [
      Page("GET", "/metrics") { _ in
        PageResponse(
          headers: [("content-type", "text/plain; version=0.0.4; charset=utf-8")],
          body: metrics.text()
        )
      },
      // The process runs and its event loops turn: this page was answered.
      Page("GET", "/livez") { _ in PageResponse(text: "ok\n") },
      Page("GET", "/readyz") { _ in answer(readiness.look()) },
      Page("GET", "/startupz") { _ in answer(readiness.isStarted ? nil : "starting") },
    ]
  }

  private static func answer(_ obstacle: String?) -> PageResponse {
    guard let obstacle else { return PageResponse(text: "ok\n") }
    return PageResponse(status: 503, text: "\(obstacle)\n")
  }
}
