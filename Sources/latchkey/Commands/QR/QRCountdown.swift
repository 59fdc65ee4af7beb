import LatchkeyClient
import Synchronization

/// What a waiting screen says under its code: on a terminal one live line with the time that is left, elsewhere a line
/// for each state.
final class QRCountdown: Sendable {
  private struct State {
    var text = ""
    var end: ContinuousClock.Instant?
  }

  private let output: Output
  private let line: LiveLine?
  private let state = Mutex(State())

  init(_ output: Output) {
    self.output = output
    let line = LiveLine()
    self.line = line.isTerminal && !output.json ? line : nil
  }

  /// A code is shown that stands for so long.
  func begin(_ lifetime: Duration) {
    state.withLock { $0 = State(end: .now + lifetime) }
  }

  func tell(_ progress: QRProgress) {
    let text: String
    switch progress {
    case .pending: text = "Waiting for a phone."
    case .scanned(let mask): text = "Scanned by \(mask.isEmpty ? "somebody" : mask). Waiting for them to agree."
    default: return
    }
    state.withLock { $0.text = text }
    if line == nil { output.progress(text) }
  }

  /// Shows the line for as long as `body` waits.
  func during(_ body: () async throws -> QRProgress) async throws -> QRProgress {
    defer { line?.clear() }
    return try await ticking(body)
  }

  private func ticking(_ body: () async throws -> QRProgress) async throws -> QRProgress {
    // Ends with this scope.
    async let _: Void = tick()
    return try await body()
  }

  private func tick() async {
    guard let line else { return }
    repeat {
      let state = state.withLock { $0 }
      guard !state.text.isEmpty else { continue }
      line.show(state.end.map { "\(Self.left(until: $0)) left. \(state.text)" } ?? state.text)
    } while (try? await Task.sleep(for: .milliseconds(250))) != nil
  }

  private static func left(until end: ContinuousClock.Instant) -> String {
    let seconds = max(0, (end - .now).components.seconds)
    return "\(seconds / 60):\(seconds % 60 < 10 ? "0" : "")\(seconds % 60)"
  }
}
