import Logging
import ServiceRuntime

/// Where audit events go.
package struct QRAudit: Sendable {
  private let sink: @Sendable (QRAuditEvent) -> Void

  package init(_ sink: @escaping @Sendable (QRAuditEvent) -> Void) {
    self.sink = sink
  }

  /// One log line each, and counted. Every value has a form that its type fixes, so none can forge another line (R42).
  package init(logger: Logger, metrics: PrometheusRegistry) {
    metrics.describe("latchkey_qr_events_total", "What became of codes, from their issue to their end.")
    let counters = Dictionary(
      uniqueKeysWithValues: QRAuditEvent.Kind.allCases.map { kind in
        (kind, metrics.counter("latchkey_qr_events_total", [("event", kind.rawValue)]))
      })
    self.init { event in
      counters[event.kind]?.increment(by: 1)
      var metadata: Logger.Metadata = [
        "event": "qr.\(event.kind.rawValue)",
        "qr_session_id": "\(event.session)",
        "at_ms": "\(event.at.millisecondsSinceEpoch)",
      ]
      if let codeHash = event.codeHash { metadata["code_hash"] = "\(codeHash)" }
      if let subject = event.subject { metadata["sub"] = "\(subject)" }
      if !event.address.isEmpty { metadata["address"] = "\(event.address)" }
      if let clientID = event.clientID { metadata["client_id"] = "\(clientID)" }
      logger.notice("audit", metadata: metadata)
    }
  }

  func record(_ event: QRAuditEvent) {
    sink(event)
  }
}
