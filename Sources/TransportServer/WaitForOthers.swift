internal import NIOCore

/// How long what a connection sent has waited while its event loop worked for others.
///
/// A connection that asks for much waits for itself, and nothing is late because of that. What others have done meanwhile
/// is work that the loop could not keep up with.
///
///     held ──▶ read: what came meanwhile may have waited since ──▶ read: it has just come
struct WaitForOthers {
  /// The work for others that was done when what waits had come.
  private var begin = TimeAmount.zero
  /// The same when the socket was last read.
  private var lastRead = TimeAmount.zero
  private var wasHeld = false
  /// The same when reading went on after it was held.
  private var resumed = TimeAmount.zero

  /// The socket is not read, because what it had before waits for turns.
  mutating func held() {
    wasHeld = true
  }

  /// It was left unread for another reason than others' work.
  mutating func forgetHold() {
    wasHeld = false
  }

  /// The socket is read again as soon as it has something.
  mutating func goesOn(_ othersWork: TimeAmount) {
    resumed = othersWork
  }

  /// The socket was read.
  ///
  /// - Parameters:
  ///   - othersWork: how long the loop has worked for others so far.
  ///   - isMore: what was read before still waits.
  ///   - isFew: it was a call or some. One may have come at any time since the socket was last read, in the middle of that as
  ///     likely as not; of many the first have waited for all of it.
  mutating func read(_ othersWork: TimeAmount, isMore: Bool, isFew: Bool) {
    if !isMore {
      // Had it been there when reading went on, the loop would have found it at one of its next looks.
      let wasThere = wasHeld && othersWork - resumed <= Limits.looksAfterHold
      let earliest = wasThere ? lastRead : othersWork
      begin = isFew ? .nanoseconds((earliest.nanoseconds + othersWork.nanoseconds) / 2) : earliest
    }
    lastRead = othersWork
    wasHeld = false
  }

  /// - Parameter othersWork: as with `read`.
  func length(_ othersWork: TimeAmount) -> TimeAmount { othersWork - begin }
}
