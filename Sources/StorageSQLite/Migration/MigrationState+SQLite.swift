import LatchkeyModel
import Storage

extension MigrationState {
  /// The columns that `migration(_:)` reads, in its order.
  static let columns = """
    id, guest, target, phase, cursor_collection, cursor_updated_at, cursor_key, done, total, failed_step, failure,
    created_at, finished_at, undo_until
    """

  static func migration(_ row: SQLiteRow) throws(StorageError) -> Migration {
    let state = MigrationState(
      phase: row.text(3), cursorCollection: row.optionalText(4), cursorUpdatedAt: row.optionalInteger(5),
      cursorKey: row.optionalText(6), failedStep: row.optionalText(9), failure: row.optionalText(10),
      finishedAt: row.optionalInteger(12))
    return Migration(
      id: try row.opaqueID(0),
      guest: try row.opaqueID(1),
      target: try row.opaqueID(2),
      createdAt: row.timestamp(11),
      state: try state.state,
      done: Int(row.integer(7)),
      total: Int(row.integer(8)),
      undoUntil: row.optionalInteger(13).map { Timestamp(millisecondsSinceEpoch: $0) },
      undoRefusal: state.undoRefusal)
  }
}
