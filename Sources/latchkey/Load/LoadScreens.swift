import GRPC
import LatchkeyProtos
import LoadTest
import Synchronization
import TransportClient

/// Screens that show a code and watch it, beside the load. When one is confirmed or its code expires, it shows a new one.
final class LoadScreens: Sendable {
  /// One that was taken, to be confirmed.
  final class Screen: Sendable {
    private enum State: Sendable {
      case quiet
      case waiting(CheckedContinuation<Result<ContinuousClock.Instant, RPCError>, Never>)
      case told(Result<ContinuousClock.Instant, RPCError>)
    }

    let code: LoadSteps.Code
    private let state = Mutex(State.quiet)

    fileprivate init(_ code: LoadSteps.Code) { self.code = code }

    /// When the watch told of the confirmation.
    func confirmed() async -> Result<ContinuousClock.Instant, RPCError> {
      await withCheckedContinuation { continuation in
        let told = state.withLock { state -> Result<ContinuousClock.Instant, RPCError>? in
          if case .told(let result) = state { return result }
          state = .waiting(continuation)
          return nil
        }
        if let told { continuation.resume(returning: told) }
      }
    }

    fileprivate func tell(_ result: Result<ContinuousClock.Instant, RPCError>) {
      let waiting = state.withLock { state in
        defer { state = .told(result) }
        if case .waiting(let continuation) = state { return Optional(continuation) }
        return nil
      }
      waiting?.resume(returning: result)
    }
  }

  private struct State {
    /// By number; nil while the screen has no code that waits, or somebody took it.
    var ready: [Screen?]
    var opened = 0
    var failure: RPCError?
  }

  private let channels: [ClientChannel]
  private let clientID: String
  private let state: Mutex<State>

  init(_ count: Int, _ channels: [ClientChannel], clientID: String) {
    self.channels = channels
    self.clientID = clientID
    state = Mutex(State(ready: Array(repeating: nil, count: count)))
  }

  /// How many have shown their first code.
  var opened: Int { state.withLock { $0.opened } }

  /// What kept the first screens from showing their code.
  var failure: RPCError? { state.withLock { $0.failure } }

  /// One of those that wait, anywhere; nil when hardly any does.
  func take() -> Screen? {
    state.withLock { state in
      for _ in 0..<Self.draws {
        guard let number = state.ready.indices.randomElement(), let screen = state.ready[number] else { continue }
        // A code near its end makes way for a fresh one by itself.
        guard screen.code.expires > .now + .seconds(5) else { continue }
        state.ready[number] = nil
        return screen
      }
      return nil
    }
  }

  /// Tries to find a screen that waits.
  private static let draws = 100

  /// How often a screen comes back as it is told before its first code is there.
  private static let returns = 10

  /// Shows codes on one screen until cancelled. Gives up when not even the first can be shown.
  func show(_ number: Int, _ ledger: @Sendable () -> LoadLedger?) async {
    let channel = channels[number % channels.count]
    var isFirst = true
    var returns = 0
    while !Task.isCancelled {
      do throws(RPCError) {
        let screen = Screen(try await LoadSteps.issue(channel, clientID: clientID))
        do throws(RPCError) {
          try await watch(screen, number, channel, isFirst: isFirst)
          isFirst = false
        } catch {
          screen.tell(.failure(error))
          throw error
        }
      } catch {
        guard !Task.isCancelled else { return }
        if isFirst {
          // The service has much to do with the others: it says when to come back.
          if error.details.reason == "OVERLOADED", let wait = error.details.retryAfter, returns < Self.returns {
            returns += 1
            try? await Task.sleep(for: wait)
            continue
          }
          return state.withLock { $0.failure = $0.failure ?? error }
        }
        if let ledger = ledger() {
          let now = ledger.now
          ledger.note { $0.failed("screen: \(error.code.name): \(error.message)", at: now) }
        }
        try? await Task.sleep(for: .seconds(1))
      }
    }
  }

  /// Without a verifier: the watch tells of the confirmation, and the tokens stay for whoever redeems.
  private func watch(
    _ screen: Screen,
    _ number: Int,
    _ channel: ClientChannel,
    isFirst: Bool
  ) async throws(RPCError) {
    let request = QRV1.WatchSessionRequest(deviceCode: screen.code.deviceCode)
    try await QRV1.QrSessionServiceClient(channel: channel).watchSession(request) { answers throws(RPCError) in
      var isKnown = false
      for try await answer in answers {
        switch answer.state {
        case .pending where !isKnown:
          isKnown = true
          state.withLock { state in
            state.ready[number] = screen
            if isFirst { state.opened += 1 }
          }
        case .confirmed: return screen.tell(.success(.now))
        case .expired: return
        default: break
        }
      }
      screen.tell(.failure(RPCError(.dataLoss, "the watch ended without the confirmation")))
    }
  }
}
