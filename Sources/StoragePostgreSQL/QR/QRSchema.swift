extension PostgreSQLSchema {
  /// The QR service's.
  package static let qr = PostgreSQLSchema(
    part: "qr",
    steps: [
      .expand("the first tables", qrVersion1 + PostgreSQLMembers.statements),
      .expand("commits that can be looked up", CommitLane.statements),
      .expand("room beside each code", ["ALTER TABLE qr_sessions SET (fillfactor = 40)"]),
    ],
    isFoundByKeys: true)

  /// Hashes are SHA-256; ids are those of SQLite's file, and keys raw bytes; times are milliseconds since the epoch. `state`
  /// has the numbers of `QRSessionState`; the columns from `sub` to `confirmer_proven_at` are NULL until the state that
  /// brings them.
  ///
  /// What each exchange changes is in no index: PostgreSQL then writes the new row beside the old one and nothing else.
  /// Therefore the hour, which an exchange seldom changes, and room in each page: for another version of each row, since codes
  /// that were issued together may be scanned together.
  ///
  /// `qr_changes` has what instances tell their pollers, for as long as a code can live: a row for each exchange, found by
  /// the transaction that made it. What is not visible in a snapshot that was taken before is what is new, whatever order
  /// transactions began and ended in. By their times they are forgotten, and read again after another server took over.
  private static let qrVersion1 = [
    """
    CREATE TABLE qr_sessions (
      id uuid NOT NULL PRIMARY KEY,
      poll_hash bytea NOT NULL,
      reference_hash bytea NOT NULL,
      user_code_hash bytea NOT NULL,
      purpose bigint NOT NULL,
      client_id text NOT NULL,
      scope text NOT NULL,
      challenge bytea NOT NULL,
      initiator_label text,
      initiator_platform text,
      initiator_app text,
      initiator_address text NOT NULL,
      initiator_key_thumbprint text,
      initiator_sid uuid,
      device_key bytea,
      issued_at bigint NOT NULL,
      expires_at bigint NOT NULL,
      expires_hour bigint NOT NULL,
      version bigint NOT NULL,
      state bigint NOT NULL,
      sub uuid,
      sid uuid,
      ticket_hash bytea,
      ticket_expires_at bigint,
      needs_check_code boolean,
      account_mask text,
      granted_scope text,
      confirmed_at bigint,
      consumed_at bigint,
      action_text text,
      action_amount text,
      action_currency text,
      action_reference text,
      needs_reauth boolean,
      heard_beacon boolean,
      confirm_proof bytea,
      confirmer_proven_at bigint
    ) WITH (fillfactor = 75)
    """,
    "CREATE UNIQUE INDEX qr_sessions_by_poll_hash ON qr_sessions (poll_hash)",
    "CREATE UNIQUE INDEX qr_sessions_by_reference_hash ON qr_sessions (reference_hash)",
    "CREATE UNIQUE INDEX qr_sessions_by_user_code_hash ON qr_sessions (user_code_hash)",
    "CREATE INDEX qr_sessions_by_expiry ON qr_sessions (expires_hour)",
    """
    CREATE TABLE qr_changes (
      xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
      at bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
      poll_hash bytea NOT NULL,
      version bigint NOT NULL,
      state bigint NOT NULL,
      issued_at bigint NOT NULL,
      expires_at bigint NOT NULL,
      account_mask text
    )
    """,
    "CREATE INDEX qr_changes_by_xid ON qr_changes (xid)",
    "CREATE INDEX qr_changes_by_time ON qr_changes (at)",
    """
    CREATE TABLE qr_redemptions (
      id uuid NOT NULL PRIMARY KEY,
      holder uuid NOT NULL,
      held_until bigint NOT NULL,
      -- Of the turn: by the clock, so that it is higher also than one that was forgotten.
      turn bigint NOT NULL,
      answer bytea
    ) WITH (fillfactor = 75)
    """,
    """
    CREATE TABLE qr_expiries (
      -- An instance that lives no more, by its number and start.
      instance bigint NOT NULL PRIMARY KEY,
      boot     uuid NOT NULL,
      -- Up to when the ends of its codes were told.
      told     bigint NOT NULL
    )
    """,
    "CREATE TABLE qr_secrets (name text NOT NULL PRIMARY KEY, value bytea NOT NULL)",
    """
    CREATE TABLE guess_counts (
      -- Who guesses, or what is guessed at.
      name        text COLLATE "C" NOT NULL PRIMARY KEY,
      -- When it would be back to nothing spent.
      spent_until bigint NOT NULL
    )
    """,
    "CREATE INDEX guess_counts_by_time ON guess_counts (spent_until)",
  ]
}
