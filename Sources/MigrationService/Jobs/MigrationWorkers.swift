import Domain
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
      // Whoever held these claims is gone, unless other processes are at work: then claims run out.
      if !core.domain.isShared { try await core.domain.perform(ReleaseAll()) }
    } catch {
      core.logger.error("claims could not be released; they run out by themselves", metadata: ["cause": "\(error)"])
    }
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<Limits.workers {
        group.addTask { await MigrationWorker(core, subjects: subjects).run() }
      }
      if core.domain.isShared { group.addTask { await MigrationTail(core).run() } }
    }
  }
}
