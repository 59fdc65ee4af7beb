import Glibc
import Storage

/// Brings a part's tables forward, step by step.
///
/// One at a time does it, with a lock that the connection has and that goes with it. What was done is recorded with it, so
/// that whoever comes after one that was killed goes on where that was. No step waits for a table's lock for longer than two
/// seconds; one that got none tries again after a while, so that what runs on the tables goes on meanwhile.
struct SchemaUpgrade {
  let schema: PostgreSQLSchema
  let connection: PostgreSQLConnection
  let patience: SchemaPatience
  let report: @Sendable (SchemaNews) -> Void

  /// - Parameter contracting: also steps that contract. Where nothing is yet they are made in any case.
  ///
  /// Errors: `newerSchema` for a database that this release does not work on, `oldInstances` when some are in the way of a
  /// step that contracts, `forbidden` without the right to make tables, `overloaded` when others have locks for too long.
  func run(contracting: Bool) async throws(StorageError) {
    let before = try await look()
    if !work(before, contracting).isEmpty {
      try await patiently(nil) { () throws(StorageError) in try await hold() }
      try await prepare()
      let isNew = try await look().records.isEmpty
      while let step = work(try await look(), contracting || isNew).first {
        if schema.steps[step - 1].kind == .contract { try await awaitSigns(before: step) }
        try await patiently(step) { () throws(StorageError) in try await make(step) }
      }
    }
  }

  private func look() async throws(StorageError) -> SchemaState {
    connection.operation = "look at the schema \(schema.part)"
    let state = try await SchemaState.read(schema, on: connection)
    if state.isTooNew { try state.check(connection.operation) }
    return state
  }

  private func work(_ state: SchemaState, _ contracting: Bool) -> [Int] {
    state.missing + (contracting || state.records.isEmpty ? state.contractions : [])
  }

  /// Again and again while others are in the way.
  private func patiently(
    _ step: Int?, _ body: () async throws(StorageError) -> Void
  ) async throws(StorageError) {
    var deadline = ContinuousClock.now + patience.standstill
    var records: [SchemaState.Record] = []
    var told: [String]?
    while true {
      do throws(StorageError) {
        return try await body()
      } catch {
        connection.rollBack()
        guard error.fault == .overloaded, !connection.isBroken else { throw error }
        let now = try await look().records
        if now != records { (records, deadline) = (now, ContinuousClock.now + patience.standstill) }
        let holders = try await SchemaHolders.list(of: schema.part, on: connection)
        if holders != told { report(.waits(step: step, holders: holders)) }
        told = holders
        guard ContinuousClock.now < deadline else {
          let detail = holders.isEmpty ? error.detail : "it is held by \(holders.joined(separator: "; "))"
          throw StorageError(.overloaded, operation: connection.operation, detail: detail)
        }
        // The thread is the engine's own, and serves nobody yet.
        usleep(UInt32.random(in: step == nil ? Limits.schemaTurnMilliseconds : patience.pauseMilliseconds) * 1000)
      }
    }
  }

  /// Takes the lock that the connection keeps to its end.
  private func hold() async throws(StorageError) {
    connection.operation = "hold the schema \(schema.part)"
    let isMine = try await connection.first(
      "SELECT pg_try_advisory_lock($1)", .integer(SchemaHolders.lock(of: schema.part))
    ) { $0.bool(0) }
    guard isMine == true else {
      throw StorageError(.overloaded, operation: connection.operation, detail: "somebody else brings it forward")
    }
  }

  /// Makes the schema and the record of its steps.
  private func prepare() async throws(StorageError) {
    connection.operation = "make the schema \(schema.part)"
    connection.begin(isReading: false)
    // Before `IF NOT EXISTS` PostgreSQL asks for the right to make schemas, which a careful operator does not give.
    let isThere = try await connection.first(
      "SELECT count(*) > 0 FROM pg_namespace WHERE nspname = $1", .text(schema.part)
    ) { $0.bool(0) }
    if isThere != true { try connection.run("CREATE SCHEMA \(schema.part)") }
    let hasRecord = try await connection.first(
      "SELECT count(*) > 0 FROM pg_tables WHERE schemaname = $1 AND tablename = 'latchkey_schema'", .text(schema.part)
    ) { $0.bool(0) }
    if hasRecord != true {
      try connection.run(
        """
        CREATE TABLE \(schema.part).latchkey_schema (
          step        bigint NOT NULL PRIMARY KEY,
          -- What it does, for people.
          name        text NOT NULL,
          -- The least step that a release has to know to work here from this one on.
          needs       bigint NOT NULL,
          began_at    bigint NOT NULL,
          finished_at bigint,
          -- How far it has come.
          place       text
        )
        """)
    }
    try connection.commit()
  }

  // MARK: Steps

  private func make(_ number: Int) async throws(StorageError) {
    let step = schema.steps[number - 1]
    connection.operation = "step \(number) of the schema \(schema.part)"
    report(.began(step: number, name: step.name))
    switch step.work {
    case .statements(let statements): try await run(statements, number, step)
    case .index(let name, let definition):
      try await begin(number, step)
      try await build(name, definition)
      try await transaction { () throws(StorageError) in try await finish(number) }
    case .batches(let batch):
      try await begin(number, step)
      try await fill(batch, number)
    }
    report(.finished(step: number, name: step.name))
  }

  /// Of statements that are waited for, each by itself: what fails, or ends the connection, has changed nothing then.
  private func transaction(_ body: () async throws(StorageError) -> Void) async throws(StorageError) {
    connection.begin(isReading: false)
    try await body()
    try connection.commit()
  }

  private func run(_ statements: [String], _ number: Int, _ step: SchemaStep) async throws(StorageError) {
    try await transaction { () throws(StorageError) in
      if step.kind == .contract { try await expectNobody(at: number) }
      try await note(number, step)
      for statement in statements { try connection.run(statement) }
      try await finish(number)
    }
  }

  /// Lets whoever is silent and does not know the step say that it lives. Each does so once a second.
  private func awaitSigns(before number: Int) async throws(StorageError) {
    connection.operation = "step \(number) of the schema \(schema.part)"
    let silent = try await SchemaState.silentStrangers(to: number, of: schema.part, on: connection)
    guard !silent.isEmpty else { return }
    report(.waits(step: number, holders: silent.map { "a sign of instance \($0.instance) at \($0.address)" }))
    // The thread is the work's own.
    usleep(UInt32(clamping: patience.signMilliseconds) * 1000)
  }

  /// From here to the transaction's end no instance joins, and after it none that does not know the step.
  private func expectNobody(at number: Int) async throws(StorageError) {
    try await connection.lock("members")
    let old = try await SchemaState.read(schema, on: connection).strangers(to: number)
    guard old.isEmpty else {
      let names = old.map { "instance \($0.instance) at \($0.address) knows step \($0.knows)" }
      throw StorageError(
        .oldInstances, operation: connection.operation, detail: names.joined(separator: "; "))
    }
  }

  private func begin(_ number: Int, _ step: SchemaStep) async throws(StorageError) {
    try await transaction { () throws(StorageError) in try await note(number, step) }
  }

  private static let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

  private func note(_ number: Int, _ step: SchemaStep) async throws(StorageError) {
    _ = try await connection.change(
      """
      INSERT INTO \(schema.part).latchkey_schema (step, name, needs, began_at) VALUES ($1, $2, $3, \(Self.now))
      ON CONFLICT (step) DO NOTHING
      """,
      .integer(number), .text(step.name), .integer(step.kind == .contract ? number : 0))
  }

  private func finish(_ number: Int) async throws(StorageError) {
    _ = try await connection.change(
      "UPDATE \(schema.part).latchkey_schema SET finished_at = \(Self.now) WHERE step = $1", .integer(number))
  }

  private func fill(_ batch: String, _ number: Int) async throws(StorageError) {
    var isOver = false
    while !isOver {
      var place: String?
      try await transaction { () throws(StorageError) in
        place = try await fillOnce(batch, number)
        if place == nil { try await finish(number) }
      }
      if let place { report(.came(step: number, place: place)) }
      isOver = place == nil
    }
  }

  /// Where the batch ends; nil when nothing was left.
  private func fillOnce(_ batch: String, _ number: Int) async throws(StorageError) -> String? {
    let table = "\(schema.part).latchkey_schema"
    let before = try await connection.first("SELECT place FROM \(table) WHERE step = $1", .integer(number)) {
      $0.optionalText(0)
    }
    let found = try await connection.first(batch, .optional(before ?? nil)) { $0.optionalText(0) }
    guard let place = found ?? nil else { return nil }
    guard place != before else {
      throw StorageError(.misuse, operation: connection.operation, detail: "a batch ends where it began")
    }
    _ = try await connection.change(
      "UPDATE \(table) SET place = $2 WHERE step = $1", .integer(number), .text(place))
    return place
  }

  /// Builds an index without holding writers up, for as long as it takes: it waits for every transaction that was there
  /// before, which nobody waits behind.
  private func build(_ name: String, _ definition: String) async throws(StorageError) {
    let isWhole = try await connection.first(
      """
      SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
      """, .text(schema.part), .text(name)
    ) { $0.bool(0) }
    if isWhole == true { return }
    try connection.run("SET lock_timeout = 0")
    if isWhole == false { try connection.run("DROP INDEX CONCURRENTLY \(schema.part).\(name)") }
    try connection.run("CREATE INDEX CONCURRENTLY \(name) \(definition)")
    try connection.run("SET lock_timeout = \(patience.lockMilliseconds)")
  }
}
