import CSQLite
import Synchronization

/// Stops what a connection is reading, from another thread.
@safe final class SQLiteInterrupt: Sendable {
  // The connection while it is open. Sendable as an address: SQLite allows `sqlite3_interrupt` from any thread as long
  // as the connection is not closed, and closing takes the lock first.
  private let address: Mutex<UInt?>

  init(_ database: OpaquePointer) {
    address = Mutex(UInt(bitPattern: database))
  }

  func interrupt() {
    address.withLock { address in
      guard let address, let database = unsafe OpaquePointer(bitPattern: address) else { return }
      // Open, because `retire` has not run and cannot run now.
      unsafe sqlite3_interrupt(database)
    }
  }

  /// The connection is about to close.
  func retire() {
    address.withLock { $0 = nil }
  }
}
