import Domain
import Logging
import Storage

/// Forgets what taking back needs of migrations whose time for that is over.
package struct UndoUpkeep: Sendable {
  private let core: MigrationCore

  package init(_ core: MigrationCore) {
    self.core = core
  }

  package func run() async {
    while !Task.isCancelled {
      await forget()
      try? await Task.sleep(for: Limits.forgetInterval)
    }
  }

  /// In small steps, so that callers get their turns between them.
  package func forget() async {
    let now = core.clock.now()
    while !Task.isCancelled {
      do throws(StorageError) {
        if try await core.domain.perform(ForgetUndo(at: now, limit: Limits.forgetRows)) == 0 { return }
      } catch {
        if error.fault != .cancelled {
          core.logger.error("what is over could not be forgotten", metadata: ["cause": "\(error)"])
        }
        return
      }
    }
  }
}
