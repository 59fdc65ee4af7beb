/// What came of asking for a migration to be taken back.
package enum UndoOutcome: Sendable, Equatable {
  case begun
  /// It is being taken back, or was.
  case already
  /// It is under way, or failed.
  case notDone
  /// Its time is over.
  case expired
  /// The guest or the account was deleted.
  case deleted
  case unknown
}
