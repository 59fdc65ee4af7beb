/// A call that streams responses in turns, and between two of them waits without a task.
///
///     turn ──▶ park ──▶ waiting: nothing runs ──▶ wake ──▶ turn ──▶ … ──▶ over
///
/// A suspended task keeps the frames of all the functions it is in: about 14 KiB for a call that only waits. A parked
/// one keeps this object.
package protocol ParkedCall: AnyObject, Sendable {
  /// Writes what there is. True: the call is over.
  func turn() async throws(RPCError) -> Bool

  /// Waits. `waker` is to be used once, from any thread, when there may be something to write. False, without using it,
  /// when there is something already.
  func park(_ waker: CallWaker) -> Bool

  /// Nobody waits any more. The waker may still be used.
  func unpark()
}

/// Continues one parked call.
package struct CallWaker: Sendable {
  /// Who runs parked calls.
  package protocol Target: AnyObject, Sendable {
    /// Runs the next turn of the call with that number, if it is still there. Called from any thread; once too often does
    /// no harm.
    func wake(_ number: Int)
  }

  private let target: any Target
  private let number: Int

  package init(_ target: any Target, number: Int) {
    self.target = target
    self.number = number
  }

  package func wake() { target.wake(number) }
}
