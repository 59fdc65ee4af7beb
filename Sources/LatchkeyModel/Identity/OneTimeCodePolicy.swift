/// How long a one-time code holds, how often it may be tried and how soon another may be sent.
///
/// A code belongs to who asked for it, by its handle, device or network, so that a stranger's codes and tries take
/// nothing from the owner's. All strangers together have twenty an hour for one address. What they may guess is bounded
/// by ``AttemptPolicy``: 120 tries in a million the first day of an attack, 24 each day that it goes on.
package struct OneTimeCodePolicy: Sendable, Equatable {
  package var digits = 6
  package var lifetime: Duration = .seconds(300)
  package var attempts: Int64 = 5
  /// Tries of callers that say no handle and come from another network than the one that asked.
  package var attemptsFromElsewhere: Int64 = 5
  package var resendAfter: Duration = .seconds(60)
  package var sendsPerHour: Int64 = 5
  package var strangersSendsPerHour: Int64 = 20

  package init() {}
}
