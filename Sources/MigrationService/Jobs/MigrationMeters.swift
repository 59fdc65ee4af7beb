import LatchkeyModel
import ServiceRuntime

/// Counts merges by how they ended, and the records that they moved.
package struct MigrationMeters: Sendable {
  private let done: PrometheusCounter
  private let failed: PrometheusCounter
  private let undone: PrometheusCounter
  private let undoRefused: PrometheusCounter
  private let records: PrometheusCounter

  package init(_ metrics: PrometheusRegistry) {
    metrics.describe("latchkey_merges_total", "Merges that came to an end, by which.")
    metrics.describe("latchkey_merged_records_total", "Records of guests that merges took into accounts.")
    func merges(_ outcome: String) -> PrometheusCounter {
      metrics.counter("latchkey_merges_total", [("outcome", outcome)])
    }
    done = merges("done")
    failed = merges("failed")
    undone = merges("undone")
    undoRefused = merges("undo_refused")
    records = metrics.counter("latchkey_merged_records_total")
  }

  /// A migration that has nothing more to do.
  func count(_ migration: Migration) {
    switch migration.state {
    case .failed: failed.increment(by: 1)
    case .undone: undone.increment(by: 1)
    default:
      guard migration.undoRefusal == nil else { return undoRefused.increment(by: 1) }
      done.increment(by: 1)
      records.increment(by: Int64(migration.total))
    }
  }
}
