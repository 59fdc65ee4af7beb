internal import CoreMetrics
internal import Transport

/// What the gRPC port's connections use together, and what was refused, brought up to date for each scrape.
struct UsageMeters: Sendable {
  private let connections: Meter
  private let calls: Meter
  private let bufferedBytes: Meter
  private let refusedConnections: Meter
  private let refusedCalls: Meter

  init(_ factory: PrometheusRegistry) {
    connections = Meter(label: "server_connections", factory: factory)
    calls = Meter(label: "server_waiting_calls", factory: factory)
    bufferedBytes = Meter(label: "server_buffered_bytes", factory: factory)
    refusedConnections = Meter(label: "server_refused_connections", factory: factory)
    refusedCalls = Meter(label: "server_refused_calls", factory: factory)
  }

  func record(_ usage: ServerBudget.Usage) {
    connections.set(usage.connections)
    calls.set(usage.calls)
    bufferedBytes.set(usage.bufferedBytes)
    refusedConnections.set(usage.refusedConnections)
    refusedCalls.set(usage.refusedCalls)
  }
}
