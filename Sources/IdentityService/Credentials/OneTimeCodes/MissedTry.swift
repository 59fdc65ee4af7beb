import Domain
import Synchronization

/// The try of a code that was not right, for whoever learns later that it was none: the code was right in an equal
/// request that spent it.
final class MissedTry: Sendable {
  private let counted = Mutex<CountedAttempt?>(nil)

  func note(_ attempt: CountedAttempt) { counted.withLock { $0 = attempt } }

  /// Takes it off the count.
  func giveBack(by secrets: SecretChecks) async {
    guard let attempt = counted.withLock({ $0 }) else { return }
    await secrets.notMade(attempt)
  }
}
