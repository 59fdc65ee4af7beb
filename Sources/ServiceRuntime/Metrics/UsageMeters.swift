internal import TransportServer

extension PrometheusRegistry {
  /// What the gRPC port's connections use together, and what was refused.
  func observe(_ usage: @escaping @Sendable () -> ServerBudget.Usage) {
    observe("server_connections", .gauge, "Connections to the gRPC port.") { Double(usage().connections) }
    observe("server_waiting_calls", .gauge, "Calls that wait for something.") { Double(usage().calls) }
    observe("server_buffered_bytes", .gauge, "Bytes that are kept for calls and connections.") {
      Double(usage().bufferedBytes)
    }
    observe("server_refused_connections_total", .counter, "Connections that were closed at once for want of room.") {
      Double(usage().refusedConnections)
    }
    observe("server_refused_calls_total", .counter, "Calls that were refused for want of room.") {
      Double(usage().refusedCalls)
    }
  }
}
