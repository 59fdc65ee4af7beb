internal import LatchkeyModel
internal import Logging
internal import Storage
package import StoragePostgreSQL
package import StorageSQLite

/// A service's rows, opened.
package struct OpenedStorage<Store: Sendable>: Sendable {
  package let store: Store
  /// Why nothing can be stored; nil while it can.
  package let obstacle: @Sendable () -> String?
  package let close: @Sendable () async -> Void
  /// This instance among the others that have the same rows; nil where there can be none.
  package var membership: Membership?
}

extension ServiceResources {
  /// Opens a service's rows wherever `storage.url` says, brought to the latest schema.
  ///
  /// - Parameters:
  ///   - file: the name of SQLite's file in the data directory.
  ///   - sqlite: the schema, and the store over a database that has it.
  ///   - postgresql: the same; nil for a service that has no store there.
  package func openStorage<Store: Sendable>(
    file: String,
    sqlite: (schema: SQLiteSchema, store: (SQLiteDatabase) -> Store),
    postgresql: (schema: PostgreSQLSchema, store: (PostgreSQLDatabase) -> Store)?
  ) async throws -> OpenedStorage<Store> {
    switch try configuration.storage(file: file) {
    case .sqlite(let path):
      let database = try SQLiteDatabase.open(path: path, schema: sqlite.schema, cells: cells)
      metrics.observe(database, path: path)
      return OpenedStorage(
        store: sqlite.store(database), obstacle: { database.obstacle }, close: { await database.close() })
    case .postgresql(let url):
      guard let postgresql else {
        throw ConfigurationError.conflict("storage.url: this service keeps its rows in SQLite only")
      }
      let database = try await openDatabase(url, postgresql.schema, cells)
      do throws(StorageError) {
        try await database.claimCell()
      } catch {
        await database.close()
        throw error
      }
      metrics.observe(database)
      logger.info("rows are in PostgreSQL", metadata: ["url": "\(url)", "connections": "\(database.connections)"])
      let membership = try await Membership.join(
        PostgreSQLMembers(database), address: configuration.instanceAddress.description, clock: clock, logger: logger)
      return OpenedStorage(
        store: postgresql.store(database), obstacle: { database.obstacle }, close: { await database.close() },
        membership: membership)
    }
  }

  private func openDatabase(
    _ url: PostgreSQLURL, _ schema: PostgreSQLSchema, _ cells: Cells
  ) async throws -> PostgreSQLDatabase {
    switch configuration[CommonKeys.storageSchema] {
    case .apply:
      let report = note(schema)
      return try await PostgreSQLDatabase.open(
        url: url, schema: schema, preparation: .apply(report: report), cells: cells)
    case .wait:
      return try await WaitingRoom.wait(self) { isWaiting in
        do {
          return .there(try await PostgreSQLDatabase.open(url: url, schema: schema, preparation: .expect, cells: cells))
        } catch let error as StorageError {
          switch error.fault {
          case .olderSchema(let step):
            return .missing(
              "step \(step) of the schema \(schema.part) is not made: latchkey admin schema apply --to \(url)")
          // It was there, and somebody may well start it anew to bring its tables forward.
          case .unavailable where isWaiting: return .missing("the database cannot be reached: \(error.detail)")
          default: throw error
          }
        }
      }
    }
  }

  /// Says in the log what becomes of the tables.
  private func note(_ schema: PostgreSQLSchema) -> @Sendable (SchemaNews) -> Void {
    { [logger] news in
      var fields: Logger.Metadata = ["schema": "\(schema.part)"]
      switch news {
      case .began, .came: return
      case .finished(let step, let name):
        (fields["step"], fields["name"]) = ("\(step)", "\(name)")
        logger.notice("a step of the tables is made", metadata: fields)
      case .waits(let step, let holders):
        fields["holders"] = "\(holders.joined(separator: "; "))"
        // Instances that start together take turns.
        guard let step else { return logger.info("another one brings the tables forward", metadata: fields) }
        fields["step"] = "\(step)"
        logger.warning("the tables cannot be brought forward yet", metadata: fields)
      }
    }
  }
}

extension ServiceParts {
  /// The service is one of several: it says that it lives, and serves while it may. Called when all else is set.
  package mutating func join(_ membership: Membership?) {
    guard let membership else { return }
    tasks.append(membership.task)
    obstacle = { [obstacle] in obstacle() ?? membership.obstacle }
    self.membership = membership
    drain = { [drain] in
      membership.drain()
      drain()
    }
    close = { [close] in
      await membership.leave()
      await close()
    }
  }
}
