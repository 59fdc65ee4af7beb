import LatchkeyModel
import Storage
import Synchronization

/// Codes that this instance is about to take into its table: one look-up of each at a time, and no change of one that
/// comes during its look-up is lost.
final class Arrivals: Sendable {
  private struct Arrival {
    /// The latest that came meanwhile.
    var change: QRChange?
    var waiting: [CheckedContinuation<Bool, Never>] = []
  }

  private let arrivals = Mutex<[Digest256: Arrival]>([:])

  /// True: the caller looks it up and says `end`. False: another one did just now.
  func begin(_ secret: Digest256) async -> Bool {
    await withCheckedContinuation { continuation in
      let isFirst = arrivals.withLock { arrivals in
        guard arrivals[secret] != nil else {
          arrivals[secret] = Arrival()
          return true
        }
        arrivals[secret]?.waiting.append(continuation)
        return false
      }
      if isFirst { continuation.resume(returning: true) }
    }
  }

  /// To be called when the code is in the table, or is not going to be. Returns what changed meanwhile.
  func end(_ secret: Digest256) -> QRChange? {
    let arrival = arrivals.withLock { $0.removeValue(forKey: secret) }
    for continuation in arrival?.waiting ?? [] { continuation.resume(returning: false) }
    return arrival?.change
  }

  /// A session changed.
  func note(_ change: QRChange) {
    arrivals.withLock { arrivals in
      guard let arrival = arrivals[change.pollSecret], change.version > arrival.change?.version ?? 0 else { return }
      arrivals[change.pollSecret]?.change = change
    }
  }
}
