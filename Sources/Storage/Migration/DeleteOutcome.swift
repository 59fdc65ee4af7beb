/// What became of a record that was to be deleted.
package enum DeleteOutcome: Sendable, Equatable {
  case deleted
  case notFound
  /// The record was written since the revision that the caller saw.
  case revisionMismatch(current: Int64)
}
