import LatchkeyClient
import Synchronization

/// Follows a merge to its end: at a terminal with a bar, elsewhere with what `tell` says of each state.
enum MergeProgress {
  static func watch(
    _ id: String, _ device: DeviceClient, _ output: Output, tell: @Sendable (Merge) -> Void
  ) async throws -> Merge {
    let bar = Mutex(ProgressBar())
    defer { bar.withLock { $0.clear() } }
    return try await device.watchMerge(id: id) { merge in
      guard !merge.isFinished else { return }
      let isShown = bar.withLock { bar in
        guard bar.isShown, !output.json else { return false }
        let share = merge.total > 0 ? Double(merge.done) / Double(merge.total) : nil
        bar.show(share, merge.done, "records, \(merge.step.isEmpty ? merge.state.rawValue : merge.step)")
        return true
      }
      if !isShown { tell(merge) }
    }
  }
}
