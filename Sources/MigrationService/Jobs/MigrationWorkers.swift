import LatchkeyModel
import Storage

/// Drives started migrations to their end, also those that an earlier process left behind.
package struct MigrationWorkers: Sendable {
  private let core: MigrationCore
  private let subjects: any SubjectSwitch

  package init(_ core: MigrationCore, subjects: any SubjectSwitch) {
    self.core = core
    self.subjects = subjects
  }

  /// Works until the task is cancelled. A step that has begun is finished or undone; the rest waits in the store.
  package func run() async {
    do throws(StorageError) {
      // This process owns the store: whoever held these claims is gone.
      try await core.migrations.releaseAll()
    } catch {
      core.logger.error("claims could not be released; they run out by themselves", metadata: ["cause": "\(error)"])
    }
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<Limits.workers {
        group.addTask { await MigrationWorker(core, subjects: subjects).run() }
      }
    }
  }
}
