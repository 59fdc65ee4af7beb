internal import Glibc
package import StoragePostgreSQL
package import StorageSQLite

extension PrometheusRegistry {
  /// What a service's database does and how large it is.
  package func observe(_ database: SQLiteDatabase, path: String) {
    observe("latchkey_store_writes_total", .counter, "Writes whose outcome was decided by a commit.") {
      Double(database.statistics.writes)
    }
    observe("latchkey_store_commits_total", .counter, "Transactions that were committed for them.") {
      Double(database.statistics.commits)
    }
    observe("latchkey_store_reads_total", .counter, "Reads that were answered.") {
      Double(database.statistics.reads)
    }
    observe("latchkey_store_waiting_writes", .gauge, "Writes that wait for the writer to take them.") {
      Double(database.waitingWrites)
    }
    for (file, suffix) in [("database", ""), ("log", "-wal")] {
      observe(
        "latchkey_store_file_bytes", .gauge, "How large the store's files are.", labels: [("file", file)]
      ) {
        var status = stat()
        // stat fills the struct; the path lives as a NUL-terminated copy for the length of the call.
        return unsafe stat("\(path)\(suffix)", &status) == 0 ? Double(status.st_size) : nil
      }
    }
  }

  /// What a service has of its PostgreSQL.
  package func observe(_ database: PostgreSQLDatabase) {
    observe("latchkey_store_connections", .gauge, "Connections to the database that stand.") {
      Double(database.connections)
    }
    observe("latchkey_store_waiting_operations", .gauge, "Operations that wait for a connection.") {
      Double(database.waiting)
    }
  }
}
