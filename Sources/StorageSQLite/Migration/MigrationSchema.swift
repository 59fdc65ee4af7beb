package enum MigrationSchema {
  /// The versions of `migrator.db`.
  ///
  /// Subjects, plans and migrations are named by their 16 bytes; times are milliseconds since 1970 in UTC.
  package static let schema = SQLiteSchema(
    versions: [version1, version2, version3, version4, version5, version6, version7, version8])

  /// Whoever asks learns why a migration does not move on.
  private static let version8 = """
    -- Why it was given back the last time, since it last moved on.
    ALTER TABLE migrations ADD COLUMN hindrance TEXT;
    """

  /// What is kept for taking merges back is known without reading it, and a check of one learns that it changed.
  private static let version7 = """
    -- Of the rows in migration_records and moved_records: their bytes, and 256 for each.
    ALTER TABLE migrations ADD COLUMN kept_bytes INTEGER NOT NULL DEFAULT 0;
    -- How often taking back another merge changed what became of its records.
    ALTER TABLE migrations ADD COLUMN relaid INTEGER NOT NULL DEFAULT 0;
    UPDATE migrations SET kept_bytes =
      (SELECT coalesce(sum(256 + length(CAST(collection AS BLOB)) + length(CAST(key AS BLOB)) +
          coalesce(length(CAST(target_key AS BLOB)), 0) + coalesce(length(old_value), 0)), 0)
        FROM migration_records r WHERE r.migration = migrations.id)
      + (SELECT coalesce(sum(256 + length(CAST(collection AS BLOB)) + length(CAST(key AS BLOB)) + length(value)), 0)
        FROM moved_records r WHERE r.migration = migrations.id)
      WHERE phase NOT IN ('failed', 'undone') AND (finished_at IS NULL OR undo_until IS NOT NULL);
    """

  /// What guests store in all is known without reading it (R54).
  private static let version6 = """
    -- As the subject's last write said; 0 for what was written before this version.
    ALTER TABLE subjects ADD COLUMN is_guest INTEGER NOT NULL DEFAULT 0 CHECK (is_guest IN (0, 1));
    -- Of all guests: their bytes, and 256 for each record.
    CREATE TABLE guest_usage (id INTEGER PRIMARY KEY CHECK (id = 0), bytes INTEGER NOT NULL) STRICT;
    INSERT INTO guest_usage VALUES (0, 0);
    CREATE TRIGGER guest_usage_insert AFTER INSERT ON subjects WHEN NEW.is_guest BEGIN
      UPDATE guest_usage SET bytes = bytes + NEW.bytes + 256 * NEW.records;
    END;
    CREATE TRIGGER guest_usage_update AFTER UPDATE OF is_guest, records, bytes ON subjects
      WHEN OLD.is_guest OR NEW.is_guest BEGIN
      UPDATE guest_usage SET bytes = bytes + NEW.is_guest * (NEW.bytes + 256 * NEW.records)
        - OLD.is_guest * (OLD.bytes + 256 * OLD.records);
    END;
    CREATE TRIGGER guest_usage_delete AFTER DELETE ON subjects WHEN OLD.is_guest BEGIN
      UPDATE guest_usage SET bytes = bytes - OLD.bytes - 256 * OLD.records;
    END;
    -- Who is merged into is an account.
    CREATE TRIGGER guest_usage_merge AFTER INSERT ON migrations BEGIN
      UPDATE subjects SET is_guest = 0 WHERE sub = NEW.target AND is_guest;
    END;
    """

  /// Merges of one account are taken back in any order, and a claim that was lost is told from the one after it.
  private static let version5 = """
    -- The revision with which there was a record of this name again; 0 for records of before.
    ALTER TABLE records ADD COLUMN born INTEGER NOT NULL DEFAULT 0;
    -- Its place among all that was merged into the account; null for what was set aside.
    ALTER TABLE migration_records ADD COLUMN position INTEGER;
    -- The revision that the account's record had before; 0 when there was none.
    ALTER TABLE migration_records ADD COLUMN found INTEGER;
    -- Records that taking back left other than they were before the merge, because their owner changed them.
    ALTER TABLE migration_collections ADD COLUMN remained INTEGER NOT NULL DEFAULT 0;
    -- How often it was claimed: whoever holds an earlier claim has lost it.
    ALTER TABLE migrations ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    -- It cannot be taken back any more, and rows that were kept for that are still there.
    ALTER TABLE migrations ADD COLUMN is_forgetting INTEGER NOT NULL DEFAULT 0;
    -- Those into an account that can be taken back, or are under way.
    CREATE INDEX migrations_remembering ON migrations (target)
      WHERE phase NOT IN ('failed', 'undone') AND (finished_at IS NULL OR undo_until IS NOT NULL);
    CREATE INDEX migrations_forgetting ON migrations (id) WHERE is_forgetting = 1;
    """

  /// What is done can be taken back for a while, guests' records go beside the account's, and people decide.
  private static let version4 = """
    -- Until when a migration that is done can be taken back. Then what that needs is forgotten, and this with it.
    ALTER TABLE migrations ADD COLUMN undo_until INTEGER;
    CREATE INDEX migrations_undo ON migrations (undo_until) WHERE undo_until IS NOT NULL;
    -- A guest may be moved again after a migration of it failed or was taken back.
    DROP INDEX migrations_guest;
    CREATE UNIQUE INDEX migrations_guest ON migrations (guest) WHERE phase NOT IN ('failed', 'undone');

    ALTER TABLE migration_collections ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;
    -- Where the account has the record, when that is not under its own key.
    ALTER TABLE migration_records ADD COLUMN target_key TEXT;
    -- By which policy somebody decided about it; null for the collection's.
    ALTER TABLE migration_records ADD COLUMN policy TEXT;

    -- What the guest had, once it is gone from the records.
    CREATE TABLE moved_records (
      migration BLOB NOT NULL,
      collection TEXT NOT NULL,
      key TEXT NOT NULL,
      value BLOB NOT NULL,
      number INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      PRIMARY KEY (migration, collection, key)
    ) STRICT;
    """

  /// How much a subject stores is known without reading it, and migrations of an account are found.
  private static let version3 = """
    ALTER TABLE subjects ADD COLUMN records INTEGER NOT NULL DEFAULT 0;
    -- Of values and names.
    ALTER TABLE subjects ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE subjects SET (records, bytes) = (
      SELECT count(*), coalesce(sum(length(value) + length(CAST(collection AS BLOB)) + length(CAST(key AS BLOB))), 0)
      FROM records WHERE records.sub = subjects.sub);
    CREATE INDEX migrations_by_target ON migrations (target, created_at, id);
    """

  /// Subjects are deleted, and migrations that cannot go on are undone.
  private static let version2 = """
    ALTER TABLE subjects ADD COLUMN is_deleted INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX migrations_running_by_target ON migrations (target) WHERE finished_at IS NULL;

    -- What the account had under a name before the guest's record went there, so that it can be taken back.
    ALTER TABLE migration_records ADD COLUMN revision INTEGER;
    ALTER TABLE migration_records ADD COLUMN old_value BLOB;
    ALTER TABLE migration_records ADD COLUMN old_number INTEGER;
    ALTER TABLE migration_records ADD COLUMN old_updated_at INTEGER;

    -- A guest may be tried again after a migration of it failed.
    DROP INDEX migrations_guest;
    CREATE UNIQUE INDEX migrations_guest ON migrations (guest) WHERE phase <> 'failed';
    """

  private static let version1 = """
    -- Who has records. `version` grows with every change of them; `migration` freezes them.
    CREATE TABLE subjects (
      sub BLOB PRIMARY KEY,
      version INTEGER NOT NULL,
      migration BLOB,
      is_migrated INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;

    -- How many records there are, so that nobody has to count them.
    CREATE TABLE collections (
      sub BLOB NOT NULL,
      name TEXT NOT NULL,
      records INTEGER NOT NULL CHECK (records >= 0),
      PRIMARY KEY (sub, name)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE records (
      sub BLOB NOT NULL,
      collection TEXT NOT NULL,
      key TEXT NOT NULL,
      value BLOB NOT NULL,
      number INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      revision INTEGER NOT NULL,
      PRIMARY KEY (sub, collection, key)
    ) STRICT;
    CREATE INDEX records_newest ON records (sub, collection, updated_at DESC, key DESC);

    CREATE TABLE plans (
      id BLOB PRIMARY KEY,
      guest BLOB NOT NULL,
      target BLOB NOT NULL,
      digest BLOB NOT NULL,
      guest_version INTEGER NOT NULL,
      target_version INTEGER NOT NULL,
      expires_at INTEGER NOT NULL,
      is_started INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX plans_waiting ON plans (guest, target) WHERE is_started = 0;
    CREATE INDEX plans_expiry ON plans (expires_at) WHERE is_started = 0;

    CREATE TABLE plan_collections (
      plan BLOB NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
      name TEXT NOT NULL,
      policy TEXT NOT NULL,
      maximum_rows INTEGER,
      PRIMARY KEY (plan, name)
    ) STRICT, WITHOUT ROWID;

    -- One row for each migration: its state, and its place in the queue until it is finished.
    CREATE TABLE migrations (
      id BLOB PRIMARY KEY,
      plan BLOB NOT NULL UNIQUE REFERENCES plans (id),
      idempotency_key TEXT NOT NULL,
      guest BLOB NOT NULL,
      target BLOB NOT NULL,
      phase TEXT NOT NULL,
      cursor_collection TEXT,
      cursor_updated_at INTEGER,
      cursor_key TEXT,
      done INTEGER NOT NULL,
      total INTEGER NOT NULL,
      failed_step TEXT,
      failure TEXT,
      created_at INTEGER NOT NULL,
      finished_at INTEGER,
      run_at INTEGER NOT NULL,
      lease BLOB,
      lease_until INTEGER,
      failures INTEGER NOT NULL DEFAULT 0,
      UNIQUE (target, idempotency_key)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX migrations_guest ON migrations (guest);
    CREATE INDEX migrations_due ON migrations (run_at) WHERE finished_at IS NULL;

    CREATE TABLE migration_collections (
      migration BLOB NOT NULL REFERENCES migrations (id) ON DELETE CASCADE,
      name TEXT NOT NULL,
      policy TEXT NOT NULL,
      maximum_rows INTEGER,
      source_count INTEGER NOT NULL,
      moved INTEGER NOT NULL DEFAULT 0,
      kept INTEGER NOT NULL DEFAULT 0,
      replaced INTEGER NOT NULL DEFAULT 0,
      summed INTEGER NOT NULL DEFAULT 0,
      refused INTEGER NOT NULL DEFAULT 0,
      PRIMARY KEY (migration, name)
    ) STRICT, WITHOUT ROWID;

    -- What became of each record: the primary key is what makes a record be merged once.
    CREATE TABLE migration_records (
      migration BLOB NOT NULL,
      collection TEXT NOT NULL,
      key TEXT NOT NULL,
      outcome TEXT NOT NULL,
      PRIMARY KEY (migration, collection, key)
    ) STRICT, WITHOUT ROWID;

    -- Records that the account did not take, or about which a person is to decide. They outlive the guest.
    CREATE TABLE refused_records (
      migration BLOB NOT NULL REFERENCES migrations (id) ON DELETE CASCADE,
      collection TEXT NOT NULL,
      key TEXT NOT NULL,
      value BLOB NOT NULL,
      number INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      reason TEXT NOT NULL,
      PRIMARY KEY (migration, collection, key)
    ) STRICT;
    """
}
