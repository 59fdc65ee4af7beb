import Domain
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage
import Synchronization

/// Delivers what owners are to be told. It is written down with the change and goes once the next station has it, so that
/// each arrives at least once, whatever dies between; its key tells a second one from another.
///
/// Each recipient has one delivery at a time and its own pauses, so that nobody waits for a dead one, and each channel its
/// own deliveries. Of a recipient for whom too many wait the oldest are dropped; how many is said once a minute.
package final class NoticeCourier: Sendable {
  private let sink: any CodeSink
  private let domain: IdentityDomain
  let dropped: DroppedNotices
  private let policy: NoticePolicy
  private let surroundings: Surroundings
  private let underWay = Mutex<[NoticeChannel: Int]>([:])
  private let wakes: AsyncStream<Void>
  private let wake: AsyncStream<Void>.Continuation

  package init(
    _ sink: any CodeSink, domain: IdentityDomain, dropped: DroppedNotices, policy: NoticePolicy = NoticePolicy(),
    surroundings: Surroundings
  ) {
    self.sink = sink
    self.domain = domain
    self.dropped = dropped
    self.policy = policy
    self.surroundings = surroundings
    (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  /// Something was written down just now.
  func hurry() { wake.yield() }

  /// Delivers until the task is cancelled.
  package func run() async {
    await withDiscardingTaskGroup { group in
      group.addTask {
        // Those of a process that died, and those that are tried again.
        while !Task.isCancelled {
          self.wake.yield()
          try? await Task.sleep(for: Limits.noticeRound)
        }
      }
      group.addTask {
        while !Task.isCancelled {
          try? await Task.sleep(for: Limits.droppedNoticesInterval)
          self.sayDropped()
        }
      }
      var warnings: [NoticeChannel: PatientWarning] = [:]
      for await _ in wakes {
        for channel in NoticeChannel.allCases {
          for notice in await lease(on: channel, &warnings[channel, default: PatientWarning()]) {
            group.addTask {
              await self.deliver(notice)
              self.underWay.withLock { $0[channel, default: 1] -= 1 }
              self.wake.yield()
            }
          }
        }
      }
    }
  }

  /// Says how many were dropped since it was said last, if any.
  private func sayDropped() {
    let count = dropped.take()
    guard count > 0 else { return }
    surroundings.logger.error(
      "owners were not told: more notices waited for them than are kept", metadata: ["count": "\(count)"])
  }

  private func lease(on channel: NoticeChannel, _ warning: inout PatientWarning) async -> [OwnerNotice] {
    let room = Limits.noticeDeliveries - underWay.withLock { $0[channel, default: 0] }
    guard room > 0 else { return [] }
    do throws(StorageError) {
      let taken = try await domain.perform(
        LeaseNotices(under: policy, on: channel, limit: room, at: surroundings.clock.now()))
      warning.succeeded()
      if taken.givenUp > 0 {
        surroundings.logger.error(
          "owners were not told: their notices are too old", metadata: ["count": "\(taken.givenUp)"])
      }
      underWay.withLock { $0[channel, default: 0] += taken.notices.count }
      return taken.notices
    } catch {
      if warning.failed() {
        surroundings.logger.error(
          "notices cannot be looked up", metadata: ["cause": "\(error)", "channel": "\(channel)"])
      }
      return []
    }
  }

  private func deliver(_ notice: OwnerNotice) async {
    do {
      try await sink.deliver(notice)
      try await domain.perform(SettleNotice(notice.key))
    } catch {
      surroundings.logger.error(
        "an owner was not told yet; it is tried again",
        metadata: [
          "to": "\(notice.recipient.mask)", "of": "\(notice.notice.rawValue)", "attempts": "\(notice.attempts)",
          "cause": "\(error)",
        ])
    }
  }
}
