import LatchkeyClient
import LoadTest

/// What one process of a load test does.
struct LoadPlan: Sendable {
  enum Mode: String, Sendable, CaseIterable {
    case poll
    case longPoll = "long-poll"
    case watch
    case full
  }

  var mode: Mode
  var client: ClientConfiguration
  /// Takes any certificate for the service's.
  var trustsAnyone: Bool
  var connections: Int
  /// Operations under way at most; each is a worker of its own.
  var workers: Int
  /// Nil for a closed loop.
  var schedule: LoadSchedule?
  var ramp: Duration
  /// After the ramp.
  var duration: Duration
  var codes: Int
  var accounts: Int
  /// Screens that watch beside the load.
  var waiting: Int
  var keepsInterval: Bool

  /// What our services take of one connection.
  static let watchesPerConnection = 100

  var end: Duration { ramp + duration }
}
