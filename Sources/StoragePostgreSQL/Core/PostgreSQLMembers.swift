import LatchkeyModel
import Storage
import Synchronization

/// The table `members` of a part's schema.
package struct PostgreSQLMembers: MemberRows {
  private let database: PostgreSQLDatabase
  /// After which what stands still is ended, in milliseconds: as the server's own time for a silent transaction.
  var silenceMilliseconds = Limits.silenceMilliseconds

  private final class Look: Sendable {
    let isOn = Atomic(false)
  }

  private let look = Look()

  package init(_ database: PostgreSQLDatabase) {
    self.database = database
  }

  /// What a part's schema has for it.
  static let statements =
    [
      """
      CREATE TABLE members (
        instance  bigint NOT NULL PRIMARY KEY CHECK (instance BETWEEN 0 AND 65535),
        boot      uuid NOT NULL,
        address   text COLLATE "C" NOT NULL,
        -- Of the database's clock.
        heartbeat bigint NOT NULL,
        draining  boolean NOT NULL,
        -- The last step of the schema that its release knows.
        knows     bigint NOT NULL,
        -- It said good-bye, and has given no sign of life since.
        has_left  boolean NOT NULL DEFAULT false
      ) WITH (fillfactor = 50)
      """
    ] + PostgreSQLDatabase.cellStatements

  /// Cut off to the millisecond, as an instance's own time is.
  private static let now = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
  private static let selectFree = """
    SELECT n FROM (SELECT 0 AS n UNION ALL SELECT instance + 1 FROM members) AS candidates
    WHERE n <= 65535 AND NOT EXISTS (SELECT 1 FROM members WHERE instance = n) ORDER BY n LIMIT 1
    """

  /// The least step that a release has to know, as ``SchemaState/floor``.
  private static let selectFloor = "SELECT coalesce(max(needs), 0) FROM latchkey_schema"

  private func expectNoNewer(_ db: PostgreSQLConnection, _ operation: String) async throws(StorageError) {
    let floor = try await db.first(Self.selectFloor) { Int($0.integer(0)) } ?? 0
    let schema = database.schema
    guard floor <= schema.latest else {
      throw StorageError(
        .newerSchema(found: floor, known: schema.latest), operation: operation, detail: "schema \(schema.part)")
    }
  }

  /// Errors: `newerSchema` when the tables that its release needs are gone by now.
  package func join(boot: [UInt8], address: String) async throws(StorageError) -> Member {
    let knows = Int64(database.schema.latest)
    return try await database.write("join the members", isUrgent: true) { db throws(StorageError) in
      // Whoever takes something away holds it while they look who lives.
      try await db.lock("members")
      try await expectNoNewer(db, "join the members")
      try await db.execute(
        "DELETE FROM members WHERE heartbeat <= \(Self.now) - $1", .integer(Limits.memberLeaseMilliseconds))
      guard let number = try await db.first(Self.selectFree, map: { UInt16(clamping: $0.integer(0)) }) else {
        throw StorageError(.full, operation: "join the members", detail: "no number is free")
      }
      try await db.execute(
        """
        INSERT INTO members (instance, boot, address, heartbeat, draining, knows)
        VALUES ($1, $2, $3, \(Self.now), true, $4)
        """,
        .integer(Int64(number)), .bytes(boot), .text(address), .integer(knows))
      return Member(number: number, boot: boot, address: address)
    }
  }

  /// Errors: `newerSchema` when it was silent for so long that what its release needs was taken away.
  package func beat(_ member: Member, clock: any WallClock) async throws(StorageError) -> MemberBeat? {
    // Beside the sign, which must not wait for it: rows that stand still may be what the sign waits for, and a connection
    // that does not answer would take the time until the next one.
    lookForStalled()
    return try await giveSign(of: member, clock: clock)
  }

  /// The server itself ends a transaction whose process went silent after an answer. One that stands still after it sent
  /// only a part of several statements counts as running, for ever, and holds its rows. So does a COPY by hand, which is
  /// nobody's business here.
  private static let selectStalled = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = session_user
      AND state = 'active' AND wait_event = 'ClientRead' AND query !~* '\\mcopy\\M'
      AND state_change < clock_timestamp() - $1 * interval '1 ms'
    """

  /// Ends what other instances began at the database and stand still in the midst of, unless a look is under way. One that
  /// fails is done with the next sign, and every other instance does the same.
  private func lookForStalled() {
    guard !look.isOn.exchange(true, ordering: .acquiring) else { return }
    Task {
      _ = try? await endStalled()
      look.isOn.store(false, ordering: .releasing)
    }
  }

  private func endStalled() async throws(StorageError) {
    try await database.read("end what stands still", isUrgent: true) { db throws(StorageError) in
      _ = try await db.first(Self.selectStalled, .integer(silenceMilliseconds)) { _ in }
    }
  }

  private func giveSign(of member: Member, clock: any WallClock) async throws(StorageError) -> MemberBeat? {
    try await database.write("say that a member lives", isUrgent: true) { db throws(StorageError) in
      try await expectNoNewer(db, "say that a member lives")
      let before = clock.now()
      let taken = try await db.first(
        """
        UPDATE members SET heartbeat = \(Self.now), draining = $3, has_left = false WHERE instance = $1 AND boot = $2 \
        RETURNING heartbeat, \(PostgreSQLConnection.thisServer)
        """,
        .integer(Int64(member.number)), .bytes(member.boot), .bool(member.isDraining)
      ) { (time: $0.timestamp(0), server: $0.text(1)) }
      let after = clock.now()
      guard let (time, server) = taken else { return nil }
      let live = try await db.all(
        "SELECT instance, boot, address, draining FROM members WHERE heartbeat > $1 ORDER BY instance",
        .integer(time.millisecondsSinceEpoch - Limits.memberSilenceMilliseconds)
      ) { row throws(StorageError) in
        Member(
          number: UInt16(clamping: row.integer(0)), boot: row.bytes(1), address: row.text(2), isDraining: row.bool(3))
      }
      return MemberBeat(live: live, server: server, time: time, before: before, after: after)
    }
  }

  package func leave(_ member: Member) async throws(StorageError) {
    try await database.write("leave the members", isUrgent: true) { db throws(StorageError) in
      // As silent as one who died.
      try await db.execute(
        """
        UPDATE members SET heartbeat = \(Self.now) - $3, draining = true, has_left = true WHERE instance = $1 AND boot = $2
        """, .integer(Int64(member.number)), .bytes(member.boot), .integer(Limits.memberSilenceMilliseconds))
    }
  }
}

extension PostgreSQLConnection {
  /// Names the server that runs a statement, as SQL: by when it started.
  static let thisServer = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text"
}
