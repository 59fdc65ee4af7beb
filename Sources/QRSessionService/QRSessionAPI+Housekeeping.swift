import GRPC
import LatchkeyModel
import Storage

extension QRSessionAPI {
  /// Keeps time and tidies up until the task is cancelled.
  package func run() async {
    await withDiscardingTaskGroup { group in
      group.addTask { await self.keepTime() }
      group.addTask { await self.forgetOldSessions() }
      group.addTask { await self.followUp() }
    }
    stopWaiting()
  }

  /// The service begins to end: polls that wait are answered with what there is, and none waits any more.
  package func stopWaiting() {
    table.stopWaiting()
  }

  /// Wakes polls whose wait is over, and once a second those whose session is.
  private func keepTime() async {
    var lastSweep = clock.now()
    while (try? await Task.sleep(for: Limits.tick)) != nil {
      table.wakeTimedOut(at: .now)
      let now = clock.now()
      guard now.secondsSinceEpoch != lastSweep.secondsSinceEpoch else { continue }
      lastSweep = now
      sweep(at: now)
    }
  }

  func sweep(at now: Timestamp) {
    gate.sweep(at: now)
    for id in table.sweep(at: now) {
      audit.record(
        QRAuditEvent(kind: .expired, at: now, session: id, codeHash: nil, subject: nil, address: "", clientID: nil)
      )
    }
  }

  private func forgetOldSessions() async {
    while (try? await Task.sleep(for: Limits.sweepInterval)) != nil {
      do throws(StorageError) {
        while try await forgetBatch() == Limits.rowsPerBatch, !Task.isCancelled {}
      } catch {
        if error.fault != .cancelled { logger.error("old sessions stay", metadata: ["error": "\(error)"]) }
      }
    }
  }

  func forgetBatch() async throws(StorageError) -> Int {
    let now = clock.now()
    return try await store.removeSessions(
      redeemedBefore: now - Limits.redeemedRetention,
      othersBefore: now - Limits.endedRetention,
      limit: Limits.rowsPerBatch
    )
  }

  private func followUp() async {
    for await code in followUps.codes { await cancel(code) }
  }

  /// Two accounts submitted one code: it is being passed around, and dies (S6).
  private func cancel(_ code: FollowUps.PassedAround) async {
    record(.scannedByAnother, code.session, subject: code.subject, address: code.address)
    do throws(RPCError) {
      let found = try await stored { () throws(StorageError) in try await self.store.session(code.session.id) }
      if let found { try await cancel(found) }
    } catch {
      logger.error("a code that is passed around was not cancelled", metadata: ["qr_session_id": "\(code.session.id)"])
    }
  }
}
