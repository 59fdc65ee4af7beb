import CPostgreSQL
import Storage

/// An error that the server reported, or that libpq did.
struct PostgreSQLFailure: Sendable {
  /// Five characters; empty for what libpq found out by itself, such as a connection that ended.
  /// Source: https://www.postgresql.org/docs/15/errcodes-appendix.html
  let code: String
  /// Whether the server ends the connection with it.
  let isFatal: Bool
  let message: String

  /// The failure of a live result.
  init(_ result: OpaquePointer) {
    // Texts of the result, which lives through the call; they are copied at once.
    code = unsafe latchkey_pq_sqlstate(result).map { unsafe String(cString: $0) } ?? ""
    let severity = unsafe latchkey_pq_severity(result).map { unsafe String(cString: $0) } ?? ""
    isFatal = severity == "FATAL" || severity == "PANIC" || code.isEmpty
    message = unsafe latchkey_pq_message(result).map { unsafe String(cString: $0) } ?? ""
  }

  /// A serialization failure or a deadlock: the same may go well a moment later.
  var isConflict: Bool { code == "40001" || code == "40P01" }

  /// A server that turned into a standby under the connection.
  var isReadOnlyServer: Bool { code == "25006" }

  func error(_ operation: String) -> StorageError {
    StorageError(StorageError.Fault(code: code), operation: operation, detail: detail)
  }

  /// Without the message where that may hold a value: class 22 are values that a type does not take.
  var detail: String {
    if code.isEmpty { return "the connection to the database ended" }
    return message.isEmpty || code.hasPrefix("22") ? "PostgreSQL error \(code)" : "PostgreSQL error \(code): \(message)"
  }
}

extension StorageError.Fault {
  /// Source: https://www.postgresql.org/docs/15/errcodes-appendix.html
  init(code: String) {
    switch code {
    case "23505": self = .constraint(.unique)
    case "23503": self = .constraint(.foreignKey)
    case "23514": self = .constraint(.check)
    case "23502": self = .constraint(.notNull)
    case "53100": self = .full
    case "42501": self = .forbidden
    case "XX001", "XX002": self = .corrupt
    // Still in each other's way after all attempts, or a lock that was not let go of in time.
    case "40001", "40P01", "55P03": self = .overloaded
    // A standby that takes no writes.
    case "25006", "": self = .unavailable
    default:
      switch code.prefix(2) {
      case "23": self = .constraint(.other)
      // Connection, authorization, database name, resources, an operator's doing, the system. 25P03: was silent too long.
      case "08", "28", "3D", "53", "57", "58": self = .unavailable
      default: self = code == "25P03" ? .unavailable : .misuse
      }
    }
  }
}
