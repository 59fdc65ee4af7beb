/// The bounds of this module, each with its reason.
package enum Limits {
  /// Transfers at once. Each waits on somebody else's server most of the time and holds a thread meanwhile.
  package static let threads = 4
  /// Transfers that may wait for a thread, a few KiB each.
  package static let queue = 256

  /// The largest answer that is read: a key set of a hundred keys has 60 KiB.
  package static let answerBytes = 256 * 1024

  /// How long a connection may take to come about, and a transfer as a whole: longer than any healthy server needs.
  package static let connectTimeout: Duration = .seconds(5)
  package static let timeout: Duration = .seconds(10)
}
