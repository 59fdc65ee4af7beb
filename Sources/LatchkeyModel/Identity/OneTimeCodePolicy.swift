/// How long a one-time code holds, how often it may be tried and how soon another may be sent. Five codes an hour with
/// five tries each are 25 guesses in a million.
package struct OneTimeCodePolicy: Sendable, Equatable {
  package var digits = 6
  package var lifetime: Duration = .seconds(300)
  package var attempts: Int64 = 5
  package var resendAfter: Duration = .seconds(60)
  package var sendsPerHour: Int64 = 5

  package init() {}
}
