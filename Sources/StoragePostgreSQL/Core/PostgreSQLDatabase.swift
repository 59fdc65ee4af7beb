import LatchkeyModel
import Storage

/// A database: up to eight connections, each with a transaction at a time.
///
/// ```swift
/// let database = try await PostgreSQLDatabase.open(url: url, schema: schema)
/// try await database.write("issueGuest") { db throws(StorageError) in
///   try await db.execute("INSERT INTO guests (id) VALUES ($1)", .id(guest))
/// }
/// ```
/// Several transactions run at once, in this process and in others: an operation locks the rows that it is about before it
/// decides anything. Each is READ COMMITTED, and is run again from its beginning when it came into another's way.
package final class PostgreSQLDatabase: Sendable {
  /// Who sees to it that the tables are there.
  package enum Preparation: Sendable {
    /// This process, as far as the release needs it; `report` hears of it on a thread of its own.
    case apply(report: @Sendable (SchemaNews) -> Void)
    /// Somebody else.
    case expect

    package static var apply: Preparation { .apply { _ in } }
  }

  let pool: PostgreSQLPool
  /// As this release knows it.
  let schema: PostgreSQLSchema

  private init(_ pool: PostgreSQLPool, _ schema: PostgreSQLSchema) {
    self.pool = pool
    self.schema = schema
  }

  deinit {
    // The threads finish what waits and end.
    pool.close()
  }

  /// Brings the part's tables forward, or looks whether somebody did, and makes all connections.
  ///
  /// `isPatient`: what waits for a connection or a lock is not soon given up. For those whose work comes all at once
  /// and in a bounded amount, such as tests; a service is not. `groupDuration`: after which a group takes on no more; that of
  /// services unless told otherwise.
  ///
  /// Errors: `unavailable` when a connection cannot be made, `newerSchema` when a newer release has taken away what this one
  /// needs, `olderSchema` when steps are missing that somebody else is to make; those of ``PostgreSQLSchemaWork/apply``.
  package static func open(
    url: PostgreSQLURL, schema: PostgreSQLSchema, preparation: Preparation = .apply, cells: Cells = Cells(),
    connections: Int? = nil, isPatient: Bool = false, groupDuration: Duration? = nil
  ) async throws(StorageError) -> PostgreSQLDatabase {
    let work = PostgreSQLSchemaWork(url: url, schema: schema)
    switch preparation {
    case .apply(let report): try await work.apply(report: report)
    case .expect: try await work.state().check("open \(url)")
    }
    var patience: PostgreSQLPatience = isPatient ? .untilDone : .ofServices
    if let groupDuration { patience.group = groupDuration }
    let pool = PostgreSQLPool(
      url, part: schema.part, cells: cells, patience: patience, hasLanes: true, isFoundByKeys: schema.isFoundByKeys)
    do throws(StorageError) {
      for _ in 0..<max(1, connections ?? Limits.connections) {
        try await start(pool)
      }
    } catch {
      await pool.end()
      throw error
    }
    return PostgreSQLDatabase(pool, schema)
  }

  /// One connection to what is there, whatever that is.
  static func look(at url: PostgreSQLURL, schema: PostgreSQLSchema) async throws(StorageError) -> PostgreSQLDatabase {
    let pool = PostgreSQLPool(url, part: schema.part, cells: Cells(), patience: .ofServices)
    do throws(StorageError) {
      try await start(pool)
    } catch {
      await pool.end()
      throw error
    }
    return PostgreSQLDatabase(pool, schema)
  }

  private static func start(_ pool: PostgreSQLPool) async throws(StorageError) {
    let failure: StorageError? = await withCheckedContinuation { started in
      pool.start({ _ in }) { started.resume(returning: $0) }
    }
    if let failure { throw failure }
  }

  /// Runs `body` in a transaction and returns when it is durable. When `body` throws, nothing of it is stored.
  ///
  /// `body` may run several times: what it does besides its statements must not matter.
  ///
  /// - Parameters:
  ///   - isUrgent: goes before all that waits, and however much that is: for the little that an instance may not go
  ///     without, such as its own sign of life.
  ///   - rows: what it is about, if it asks for a few rows by their keys and seldom fails: what waits at the same time is then
  ///     committed with it, as one transaction, side by side with what is about other rows and after what is about the same.
  ///     What throws undoes all of them, and each is done by itself then. It waits long for a lock only in a transaction of its
  ///     own.
  ///
  /// Errors: `overloaded` at once when too much waits, and when the call's deadline (``CallDeadline``) passed before the work
  /// began, `unavailable` at once while there is no connection, `cancelled` when the calling task is cancelled before the
  /// work began. A commit that was not answered is looked up, and the work done again if it was not made; `outcomeUnknown`
  /// when nobody could look for 15 seconds or the caller's time, and at once when it is urgent.
  package func write<Value: Sendable>(
    _ name: String = #function,
    isUrgent: Bool = false,
    about rows: [String]? = nil,
    _ body: @escaping @Sendable (PostgreSQLConnection) async throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await PostgreSQLOperation(
      name: name, isReading: false, isUrgent: isUrgent, about: rows, work: .body(body)
    ).perform(in: pool)
  }

  /// Runs one statement that changes rows by their keys, as a brief transaction: see ``write(_:isUrgent:about:_:)``. It may come
  /// in the midst of what is about other rows than `rows`.
  /// Returns how many rows it changed. Cost: one round trip, which others may share. Errors: as there, and `outcomeUnknown`
  /// also when it was done and its answer is lost.
  package func change(
    _ sql: String, _ values: [PostgreSQLValue], about rows: [String], as name: String = #function
  ) async throws(StorageError) -> Int {
    let statement = PostgreSQLStatement(sql: sql, values: values) { result in result.changes }
    return try await PostgreSQLOperation(name: name, isReading: false, about: rows, work: .statement(statement))
      .perform(in: pool)
  }

  /// Changes a row by its key, as a brief transaction: see above. False: there is none. Cost: one round trip and one statement,
  /// both of which others may share that change their rows in the same way.
  func change(
    _ question: PostgreSQLRowQuestion, about rows: [String], as name: String = #function
  ) async throws(StorageError) -> Bool {
    let work = PostgreSQLOperation<Bool>.Work.question(question) { row in row != nil }
    return try await PostgreSQLOperation(name: name, isReading: false, about: rows, work: work).perform(in: pool)
  }

  /// The row of a key, or nil. Cost: one round trip and one statement, both of which others may share that look for theirs.
  func find<Value: Sendable>(
    _ question: PostgreSQLRowQuestion, as name: String = #function,
    map: @escaping @Sendable (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value? {
    let work = PostgreSQLOperation<Value?>.Work.question(question) { row throws(StorageError) in
      guard let row else { return nil }
      return try map(row)
    }
    return try await PostgreSQLOperation(name: name, isReading: true, about: [], work: work).perform(in: pool)
  }

  /// The first row that one statement answers, or nil: what it changes is a brief transaction, as above.
  package func change<Value: Sendable>(
    _ sql: String, _ values: [PostgreSQLValue], about rows: [String], as name: String = #function,
    map: @escaping @Sendable (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value? {
    try await first(sql, values, rows, as: name, isReading: false, map)
  }

  /// The first row that one statement finds, or nil. It changes nothing and reads a few rows by their keys. Cost: one round
  /// trip, which others may share.
  package func find<Value: Sendable>(
    _ sql: String, _ values: [PostgreSQLValue], as name: String = #function,
    map: @escaping @Sendable (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value? {
    try await first(sql, values, [], as: name, isReading: true, map)
  }

  private func first<Value: Sendable>(
    _ sql: String, _ values: [PostgreSQLValue], _ rows: [String], as name: String, isReading: Bool,
    _ map: @escaping @Sendable (PostgreSQLRow) throws(StorageError) -> Value
  ) async throws(StorageError) -> Value? {
    let statement = PostgreSQLStatement(sql: sql, values: values) { result throws(StorageError) in
      try result.first(map)
    }
    return try await PostgreSQLOperation(name: name, isReading: isReading, about: rows, work: .statement(statement))
      .perform(in: pool)
  }

  /// Runs `body` on one state of the database, beside writers and other readers.
  package func read<Value: Sendable>(
    _ name: String = #function,
    isUrgent: Bool = false,
    _ body: @escaping @Sendable (PostgreSQLConnection) async throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await PostgreSQLOperation(name: name, isReading: true, isUrgent: isUrgent, work: .body(body)).perform(in: pool)
  }

  /// Why nothing can be read, or nothing new be written; nil while a connection stands and the server has room.
  ///
  /// Whoever asks while there is no room has it tried, so that the answer changes when the disk does, also where nobody
  /// writes because of this answer.
  package var obstacle: String? {
    if let error = pool.obstacle { return "the database cannot be reached: \(error.detail)" }
    let (isMissing, isToBeTried) = pool.withRoom { room in (room.isMissing, room.isToBeTried(at: .now)) }
    // Not the caller's work, whose deadline may be near.
    if isToBeTried { Task.detached { [self] in await lookForRoom() } }
    return isMissing ? "the database cannot be written to: its disk is full" : nil
  }

  private func lookForRoom() async {
    let begin = ContinuousClock.now
    var hasFound = false
    do throws(StorageError) {
      try await write("lookForRoom", isUrgent: true) { db throws(StorageError) in
        _ = try await db.first(DiskRoom.trial) { $0.integer(0) }
        // Nothing of it stays.
        throw StorageError(.cancelled, operation: "lookForRoom")
      }
    } catch {
      hasFound = error.fault == .cancelled
    }
    pool.withRoom { $0.wasTried(hasFound, since: begin) }
  }

  /// Connections that stand.
  package var connections: Int { pool.connected }

  /// Operations that wait for a connection.
  package var waiting: Int { pool.waiting }

  /// Takes no more work, finishes what waits and closes the connections. May be called again.
  package func close() async { await pool.end() }
}
