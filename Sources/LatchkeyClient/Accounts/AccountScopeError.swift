/// Why a place of an account could not be entered or written to.
public enum AccountScopeError: Error, Sendable, Equatable {
  /// Somebody else uses the device by now, or is about to: what was begun for one is not written for the other.
  case left
  /// Nobody has entered yet.
  case nobody
  /// The switch waits at this step, which failed: enter again to go on.
  case unfinished(step: String)
  /// The step failed just now. The switch goes on there with the next entry.
  case stepFailed(step: String, reason: String)
  /// Asked from within a write or a step, which the switch would have to wait for.
  case reentered
  /// The session's storage namespace is none that can name a directory.
  case unusableNamespace(String)
  /// The directory, or the journal in it, cannot be read or written.
  case storage(String)
}
