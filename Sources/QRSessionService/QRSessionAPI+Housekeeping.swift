import GRPC
import LatchkeyModel
import Storage

extension QRSessionAPI {
  /// Keeps time and tidies up until the task is cancelled.
  package func run() async {
    await withDiscardingTaskGroup { group in
      group.addTask { await self.keepTime() }
      group.addTask { await self.endExpired() }
      group.addTask { await self.endExpiredOfTheGone() }
      group.addTask { await self.forgetOldSessions() }
      group.addTask { await self.followUp() }
      group.addTask { await self.hearChanges() }
      group.addTask { await self.listenToOthers() }
      group.addTask { await self.showLife() }
    }
    stopWaiting()
  }

  /// The service begins to end: polls that wait are answered with what there is, and none waits any more.
  package func stopWaiting() {
    table.stopWaiting()
    shared?.wakes.stop()
  }

  /// Shows the instances that listen that this one is there.
  private func showLife() async {
    guard let shared else { return }
    while (try? await Task.sleep(for: Limits.instancesInterval)) != nil { shared.wakes.showLife() }
  }

  /// Wakes polls whose wait is over.
  private func keepTime() async {
    while (try? await Task.sleep(for: Limits.tick)) != nil { table.wakeTimedOut(at: .now) }
  }

  /// Once a second, ends the sessions whose time is over. In pieces with a rest after each, so that polls are answered in
  /// between, also when a hundred thousand sessions end in one second and each has a watch to tell.
  private func endExpired() async {
    var lastSweep = clock.now()
    var handled = 0
    while (try? await Task.sleep(for: Limits.tick)) != nil {
      let now = clock.now()
      guard now.secondsSinceEpoch != lastSweep.secondsSinceEpoch else { continue }
      lastSweep = now
      gate.sweep(at: now)
      for number in table.shardNumbers {
        var isDone = false
        while !isDone {
          let sweep = table.sweep(number, at: now)
          recordExpiry(of: sweep.expired, at: now)
          isDone = sweep.isDone
          handled += sweep.handled
          guard handled >= Limits.expiriesPerPass else { continue }
          handled = 0
          guard (try? await Task.sleep(for: Limits.sweepRest)) != nil else { return }
        }
      }
    }
  }

  /// All of it at once.
  func sweep(at now: Timestamp) {
    gate.sweep(at: now)
    recordExpiry(of: table.sweep(at: now), at: now)
  }

  private func recordExpiry(of sessions: [QRSessionID], at now: Timestamp) {
    // Each instance that shows a session sees its time end; one says so.
    for id in sessions where shared == nil || id.instance == settings.instance { recordExpiry(of: id, at: now) }
  }

  private func recordExpiry(of id: QRSessionID, at now: Timestamp) {
    audit.record(
      QRAuditEvent(kind: .expired, at: now, session: id, codeHash: nil, subject: nil, address: "", clientID: nil))
  }

  /// Says of codes whose instance is gone that their time has ended: among the living the one with the lowest number does.
  /// One that only stood still says so again when it wakes. What was taken is said by nobody when the database's answer is
  /// lost, or when this instance dies before it says so.
  private func endExpiredOfTheGone() async {
    guard let shared else { return }
    while (try? await Task.sleep(for: Limits.goneInterval)) != nil {
      do throws(StorageError) {
        let ids = try await shared.store.takeExpired(by: settings.instance, limit: Limits.rowsPerBatch)
        for id in ids { recordExpiry(of: id, at: clock.now()) }
      } catch {
        note(error)
      }
    }
  }

  private func forgetOldSessions() async {
    while (try? await Task.sleep(for: Limits.sweepInterval)) != nil {
      do throws(StorageError) {
        while try await forgetBatch() == Limits.rowsPerBatch, !Task.isCancelled {}
        try await forgetShared()
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
    for await _ in followUps.arrivals {
      // The answer goes out meanwhile, and others come.
      guard (try? await Task.sleep(for: Limits.tick)) != nil else { return }
      while await !cancelPassedAround() {
        guard (try? await Task.sleep(for: Limits.followUpRest)) != nil else { return }
      }
    }
  }

  /// All at once: the store's writer commits together what waits together. False when some failed, and wait again.
  @discardableResult
  func cancelPassedAround() async -> Bool {
    let codes = followUps.take()
    if codes.isEmpty { return true }
    let failed = await withTaskGroup { group in
      for code in codes { group.addTask { await self.cancel(code) ? nil : code } }
      return await group.reduce(into: [FollowUps.PassedAround]()) { if let code = $1 { $0.append(code) } }
    }
    followUps.done(failed: failed)
    return failed.isEmpty
  }

  /// Two accounts submitted one code: it is being passed around, and dies (S6). False when the storage is away.
  private func cancel(_ code: FollowUps.PassedAround) async -> Bool {
    do throws(RPCError) {
      // As the scan read it; whoever was faster meanwhile is seen when it is exchanged.
      try await cancel(code.session)
      record(.scannedByAnother, code.session, subject: code.subject, address: code.address)
      return true
    } catch {
      logger.error(
        "a code that is passed around was not cancelled yet", metadata: ["qr_session_id": "\(code.session.id)"])
      return false
    }
  }
}
