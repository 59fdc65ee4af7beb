import Storage

/// Who is in the way of a step.
enum SchemaHolders {
  /// The advisory lock of whoever brings a part's tables forward.
  static func lock(of part: String) -> Int64 { LockKey.number("latchkey_schema", [.text(part)]) }

  /// Sessions that bring the part forward, and transactions older than a second that hold a lock on one of its tables, the
  /// oldest first. What a role may not see of others is left out.
  private static let select = """
    WITH holders AS (
      SELECT l.pid, min(c.relname::text) AS relation
      FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE l.granted AND n.nspname = $1 AND c.relkind IN ('r', 'p')
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      GROUP BY l.pid
      UNION ALL
      SELECT l.pid, NULL FROM pg_locks l
      WHERE l.granted AND l.locktype = 'advisory' AND l.objsubid = 1
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid::bigint = ($2::bigint >> 32) & 4294967295 AND l.objid::bigint = $2::bigint & 4294967295
    )
    SELECT concat_ws(', ',
      'process ' || h.pid, nullif(a.application_name, ''), 'user ' || a.usename, 'from ' || host(a.client_addr),
      CASE WHEN h.relation IS NULL THEN 'brings it forward' ELSE 'in ' || h.relation || ' since ' ||
        floor(extract(epoch FROM clock_timestamp() - a.xact_start))::bigint || ' s' END)
    FROM holders h LEFT JOIN pg_stat_activity a ON a.pid = h.pid
    WHERE h.pid <> pg_backend_pid()
      AND (h.relation IS NULL OR a.xact_start IS NULL OR a.xact_start < clock_timestamp() - interval '1 second')
    ORDER BY h.relation IS NOT NULL, a.xact_start LIMIT 5
    """

  static func list(of part: String, on connection: PostgreSQLConnection) async throws(StorageError) -> [String] {
    try await connection.all(select, .text(part), .integer(lock(of: part))) { $0.text(0) }
  }
}
