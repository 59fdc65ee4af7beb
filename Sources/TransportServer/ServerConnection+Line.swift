internal import NIOCore

/// Being left unread, because calls were refused: see `RefusedLine`.
extension ServerConnection: LineMember {
  /// Leaves the socket unread. Not that of who is to go, which is read to its end.
  func waitInLine(_ reason: RefusedLine.Reason) {
    guard !isInLine, session != nil, lifecycle.drain == .none else { return }
    isInLine = true
    executor.turns.leaveUnread(self, reason)
  }

  func lineEnds(_ wait: UnreadWait) -> Bool {
    guard isInLine, session != nil else { return false }
    isInLine = false
    // Nothing waits in the socket of who was never left unread: nobody has asked for more meanwhile.
    if isReadHeld { lateByLine = wait }
    readOnAfterPause()
    guard isReadHeld else { return true }
    lateByLine = UnreadWait()
    return false
  }

  func hasCaughtUp() { lateByLine = UnreadWait() }

  /// What is in the socket is the last that is served.
  func leaveLine() {
    isInLine = false
    readOn()
  }
}
