import CSQLite
import Storage

extension StorageError {
  /// The error that SQLite reported with `code`, an extended result code.
  /// Source: https://www.sqlite.org/rescode.html
  init(code: Int32, database: OpaquePointer?, operation: String) {
    var detail = "SQLite error \(code)"
    // The message belongs to the connection, which is live and used by this thread only; it is copied at once.
    if let database = unsafe database, let message = unsafe sqlite3_errmsg(database) {
      detail += ": \(unsafe String(cString: message))"
    }
    self.init(Fault(code: code), operation: operation, detail: detail)
  }
}

extension StorageError.Fault {
  init(code: Int32) {
    // The low byte is the primary code.
    switch code & 0xFF {
    case SQLITE_CONSTRAINT: self = .constraint(StorageError.Constraint(code: code))
    case SQLITE_INTERRUPT: self = .cancelled
    case SQLITE_FULL: self = .full
    case SQLITE_CORRUPT, SQLITE_NOTADB: self = .corrupt
    case SQLITE_BUSY, SQLITE_LOCKED, SQLITE_IOERR, SQLITE_CANTOPEN, SQLITE_READONLY, SQLITE_PERM, SQLITE_NOMEM,
      SQLITE_PROTOCOL, SQLITE_NOLFS:
      self = .unavailable
    default: self = .misuse
    }
  }
}

extension StorageError.Constraint {
  init(code: Int32) {
    // Extended codes are macros that Swift does not import: SQLITE_CONSTRAINT | (number << 8).
    switch code >> 8 {
    case 1: self = .check
    case 3: self = .foreignKey
    case 5: self = .notNull
    case 6, 8, 10: self = .unique  // PRIMARYKEY, UNIQUE, ROWID
    default: self = .other
    }
  }
}
