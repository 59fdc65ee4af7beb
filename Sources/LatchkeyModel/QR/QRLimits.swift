/// The bounds of the QR domain, each with the reason for its number.
package enum QRLimits {
  /// The longest a code may live (NIST SP 800-63B: 10 minutes for an out-of-band secret).
  package static let maximumLifetime: Duration = .seconds(600)

  /// How far the clock may be set back under a code that waits for its yes: as far as two services' clocks may
  /// disagree. Set back further, it would let the code live longer than it may.
  package static let clockStep: Duration = .seconds(60)

  /// The most a `wait_ms` may ask for: under the 30 s after which proxies give up on a silent call.
  package static let maximumWait: Duration = .milliseconds(25_000)

  /// What each `slow_down` adds, and where it stops (RFC 8628 section 3.5; the cap is ours, so that a client that
  /// polled too fast for a while is not locked out of a two-minute code).
  package static let slowDownStep: Duration = .seconds(5)
  package static let maximumInterval: Duration = .seconds(60)

  /// How long a confirm ticket may be used: time to read the screen and unlock the phone.
  package static let ticketLifetime: Duration = .seconds(60)

  /// A confirmed session stays redeemable at least this long, whatever is left of the code's life: what a person
  /// confirmed is not lost to a restart or to the pause between two polls.
  package static let redeemWindow: Duration = .seconds(60)

  /// How long the poller that redeemed gets its answer again, in case the first one was lost on the way.
  package static let repeatWindow: Duration = .seconds(30)
}
