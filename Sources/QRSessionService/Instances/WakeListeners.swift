import GRPC
import LatchkeyProtos
import Storage
import Synchronization

/// The other live instances of this service.
package protocol OtherInstances: Sendable {
  /// A channel to each, by its address.
  func channels() async -> [String: any RPCChannel]
}

/// Listens to what each other instance changes. A hint that makes waiters quick: what it does not bring, the database
/// does.
final class WakeListeners: Sendable {
  private let others: any OtherInstances
  private let show: @Sendable (QRChange) -> Void

  init(_ others: any OtherInstances, show: @escaping @Sendable (QRChange) -> Void) {
    self.others = others
    self.show = show
  }

  /// Until the task is cancelled. Instances come and go: a look at them every second.
  func run() async {
    var listeners: [String: Task<Void, Never>] = [:]
    while !Task.isCancelled {
      let channels = await others.channels()
      for (address, listener) in listeners where channels[address] == nil {
        listener.cancel()
        listeners[address] = nil
      }
      for (address, channel) in channels where listeners[address] == nil {
        listeners[address] = Task { await self.listen(to: channel) }
      }
      try? await Task.sleep(for: Limits.instancesInterval)
    }
    for listener in listeners.values { listener.cancel() }
  }

  private func listen(to channel: any RPCChannel) async {
    while !Task.isCancelled {
      // The channel says in the log why it fails.
      await listenWhileHeard(to: channel)
      try? await Task.sleep(for: Limits.wakeRetryInterval)
    }
  }

  /// Listens until the stream ends or falls silent: a connection that is cut may take minutes to say so itself.
  private func listenWhileHeard(to channel: any RPCChannel) async {
    let last = LastWord()
    let show = show
    await withTaskGroup { group in
      group.addTask {
        try? await QRV1.InstanceServiceClient(channel: channel).wake(QRV1.WakeRequest()) { responses throws(RPCError) in
          for try await response in responses {
            last.note()
            for change in response.changes { if let change = QRChange(change) { show(change) } }
          }
        }
      }
      group.addTask {
        while last.silence < Limits.wakeSilence, (try? await Task.sleep(for: Limits.wakeSilence / 4)) != nil {}
      }
      await group.next()
      group.cancelAll()
    }
  }

  private final class LastWord: Sendable {
    private let heard = Mutex(ContinuousClock.now)

    func note() { heard.withLock { $0 = .now } }
    var silence: Duration { ContinuousClock.now - heard.withLock { $0 } }
  }
}
