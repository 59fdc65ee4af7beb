extension PostgreSQLSchema {
  /// The versions of the migrator's tables.
  ///
  /// The tables and columns are those of `migrator.db`, and mean the same: subjects, plans and migrations are named by
  /// their 16 bytes, times are milliseconds since 1970 in UTC. Texts are ordered by their bytes, as there.
  package static let migration = PostgreSQLSchema(
    part: "migration",
    steps: [
      .expand("the first tables", MigrationSchema.version1),
      .expand("commits that can be looked up", CommitLane.statements),
    ])
}

private enum MigrationSchema {
  fileprivate static let version1 =
    owners + records + plans + migrations + memory + PostgreSQLMembers.statements

  private static let owners = [
    """
    -- Who has records. `version` grows with every change of them; `migration` freezes them. `bytes` are of values and names.
    CREATE TABLE subjects (
      sub uuid PRIMARY KEY,
      version bigint NOT NULL,
      records bigint NOT NULL,
      bytes bigint NOT NULL,
      migration uuid,
      is_migrated boolean NOT NULL,
      is_deleted boolean NOT NULL,
      is_guest boolean NOT NULL
    ) WITH (fillfactor = 80)
    """,
    """
    -- What all guests store: their bytes, and 256 for each record, in parts whose sum it is. A connection adds to the part
    -- of its number, so that no two transactions wait for each other here. One part may be less than nothing.
    CREATE TABLE guest_usage (
      part bigint PRIMARY KEY,
      bytes bigint NOT NULL
    ) WITH (fillfactor = 10)
    """,
    """
    -- How many records there are, so that nobody has to count them.
    CREATE TABLE collections (
      sub uuid NOT NULL,
      name text COLLATE "C" NOT NULL,
      records bigint NOT NULL CHECK (records >= 0),
      PRIMARY KEY (sub, name)
    ) WITH (fillfactor = 80)
    """,
  ]

  private static let records = [
    """
    -- `born` is the revision with which there was a record of this name again.
    CREATE TABLE records (
      sub uuid NOT NULL,
      collection text COLLATE "C" NOT NULL,
      key text COLLATE "C" NOT NULL,
      value bytea NOT NULL,
      number bigint NOT NULL,
      updated_at bigint NOT NULL,
      revision bigint NOT NULL,
      born bigint NOT NULL,
      PRIMARY KEY (sub, collection, key)
    )
    """,
    """
    -- By the subject's bytes, so that it serves pages of the newest and nothing else: of an index that begins with `sub` as
    -- well PostgreSQL thinks that it finds a key as fast as the primary key does, and goes through all of a collection.
    CREATE INDEX records_newest ON records (uuid_send(sub), collection, updated_at, key)
    """,
  ]

  private static let plans = [
    """
    CREATE TABLE plans (
      id uuid PRIMARY KEY,
      guest uuid NOT NULL,
      target uuid NOT NULL,
      digest bytea NOT NULL,
      guest_version bigint NOT NULL,
      target_version bigint NOT NULL,
      expires_at bigint NOT NULL,
      is_started boolean NOT NULL DEFAULT false
    )
    """,
    "CREATE UNIQUE INDEX plans_waiting ON plans (guest, target) WHERE NOT is_started",
    "CREATE INDEX plans_expiry ON plans (expires_at) WHERE NOT is_started",
    """
    CREATE TABLE plan_collections (
      plan uuid NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
      name text COLLATE "C" NOT NULL,
      policy text NOT NULL,
      maximum_rows bigint,
      PRIMARY KEY (plan, name)
    )
    """,
  ]

  private static let migrations = [
    """
    -- One row for each migration: its state, and its place in the queue until it is finished.
    CREATE TABLE migrations (
      id uuid PRIMARY KEY,
      plan uuid NOT NULL UNIQUE REFERENCES plans (id),
      idempotency_key text COLLATE "C" NOT NULL,
      guest uuid NOT NULL,
      target uuid NOT NULL,
      phase text NOT NULL,
      cursor_collection text,
      cursor_updated_at bigint,
      cursor_key text,
      done bigint NOT NULL,
      total bigint NOT NULL,
      failed_step text,
      failure text,
      created_at bigint NOT NULL,
      finished_at bigint,
      run_at bigint NOT NULL,
      lease uuid,
      lease_until bigint,
      failures bigint NOT NULL DEFAULT 0,
      hindrance text,
      undo_until bigint,
      epoch bigint NOT NULL DEFAULT 0,
      is_forgetting boolean NOT NULL DEFAULT false,
      kept_bytes bigint NOT NULL DEFAULT 0,
      relaid bigint NOT NULL DEFAULT 0,
      UNIQUE (target, idempotency_key)
    ) WITH (fillfactor = 80)
    """,
    "CREATE UNIQUE INDEX migrations_guest ON migrations (guest) WHERE phase NOT IN ('failed', 'undone')",
    "CREATE INDEX migrations_by_target ON migrations (target, created_at, id)",
    "CREATE INDEX migrations_due ON migrations (run_at) WHERE finished_at IS NULL",
    "CREATE INDEX migrations_running_by_target ON migrations (target) WHERE finished_at IS NULL",
    """
    -- Those into an account that can be taken back, or are under way.
    CREATE INDEX migrations_remembering ON migrations (target)
      WHERE phase NOT IN ('failed', 'undone') AND (finished_at IS NULL OR undo_until IS NOT NULL)
    """,
    "CREATE INDEX migrations_undo ON migrations (undo_until) WHERE undo_until IS NOT NULL",
    "CREATE INDEX migrations_forgetting ON migrations (id) WHERE is_forgetting",
    """
    CREATE TABLE migration_collections (
      migration uuid NOT NULL,
      name text COLLATE "C" NOT NULL,
      policy text NOT NULL,
      maximum_rows bigint,
      source_count bigint NOT NULL,
      moved bigint NOT NULL,
      kept bigint NOT NULL,
      replaced bigint NOT NULL,
      summed bigint NOT NULL,
      refused bigint NOT NULL,
      asked bigint NOT NULL,
      remained bigint NOT NULL,
      PRIMARY KEY (migration, name)
    ) WITH (fillfactor = 80)
    """,
  ]

  private static let memory = [
    """
    -- What became of each record: the primary key is what makes a record be merged once.
    CREATE TABLE migration_records (
      migration uuid NOT NULL,
      collection text COLLATE "C" NOT NULL,
      key text COLLATE "C" NOT NULL,
      outcome text NOT NULL,
      position bigint,
      found bigint,
      revision bigint,
      old_value bytea,
      old_number bigint,
      old_updated_at bigint,
      target_key text COLLATE "C",
      policy text,
      PRIMARY KEY (migration, collection, key)
    )
    """,
    """
    -- Records that the account did not take, or about which a person is to decide. They outlive the guest.
    CREATE TABLE refused_records (
      migration uuid NOT NULL,
      collection text COLLATE "C" NOT NULL,
      key text COLLATE "C" NOT NULL,
      value bytea NOT NULL,
      number bigint NOT NULL,
      updated_at bigint NOT NULL,
      reason text NOT NULL,
      PRIMARY KEY (migration, collection, key)
    )
    """,
    """
    -- What the guest had, once it is gone from the records.
    CREATE TABLE moved_records (
      migration uuid NOT NULL,
      collection text COLLATE "C" NOT NULL,
      key text COLLATE "C" NOT NULL,
      value bytea NOT NULL,
      number bigint NOT NULL,
      updated_at bigint NOT NULL,
      PRIMARY KEY (migration, collection, key)
    )
    """,
  ]
}
