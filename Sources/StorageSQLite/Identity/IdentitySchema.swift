extension SQLiteSchema {
  /// The schema of `identity.db`.
  ///
  /// Ids are 16 random bytes, times are milliseconds since the epoch in UTC. No token and no raw secret is in any
  /// column: tickets and challenges are SHA-256 hashes, passwords Argon2id strings, and a refresh token cannot be made
  /// from its session's row without the service's own secret.
  package static let identity = SQLiteSchema(versions: identityTo15 + identityFrom16)

  private static let identityTo15 = [
    """
    CREATE TABLE subjects (
      sub          BLOB NOT NULL PRIMARY KEY CHECK (length(sub) = 16),
      -- 0 guest, 1 account, 2 merged into merged_into
      kind         INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),
      merged_into  BLOB CHECK ((kind = 2) = (merged_into IS NOT NULL)),
      nickname     TEXT,
      avatar_url   TEXT,
      locale       TEXT,
      created_at   INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE devices (
      key_thumbprint    TEXT NOT NULL PRIMARY KEY,
      public_key_x      BLOB NOT NULL,
      public_key_y      BLOB NOT NULL,
      device_id         TEXT NOT NULL,
      label             TEXT,
      platform          TEXT,
      os_version        TEXT,
      app_version       TEXT,
      -- One key has one guest, and one guest one key.
      guest_sub         BLOB UNIQUE,
      last_account_sub  BLOB,
      last_login_method TEXT,
      last_login_mask   TEXT,
      last_login_at     INTEGER,
      reinstalled_at    INTEGER,
      created_at        INTEGER NOT NULL,
      last_seen_at      INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE identities (
      kind       INTEGER NOT NULL,
      value      TEXT NOT NULL,
      sub        BLOB NOT NULL,
      mask       TEXT NOT NULL,
      created_at INTEGER NOT NULL,
      PRIMARY KEY (kind, value)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX identities_by_subject ON identities (sub);

    CREATE TABLE passwords (
      sub        BLOB NOT NULL PRIMARY KEY,
      hash       TEXT NOT NULL,
      changed_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE sessions (
      sid                  BLOB NOT NULL PRIMARY KEY CHECK (length(sid) = 16),
      sub                  BLOB NOT NULL,
      is_guest             INTEGER NOT NULL,
      client_id            TEXT NOT NULL,
      scope                TEXT NOT NULL,
      method               TEXT NOT NULL,
      device_key           TEXT,
      device_label         TEXT,
      device_platform      TEXT,
      bound_key            TEXT,
      refresh_seed         BLOB NOT NULL,
      authenticated_at     INTEGER NOT NULL,
      generation           INTEGER NOT NULL,
      rotated_at           INTEGER NOT NULL,
      idle_expires_at      INTEGER NOT NULL,
      absolute_expires_at  INTEGER NOT NULL,
      ended_at             INTEGER,
      end_reason           INTEGER CHECK ((ended_at IS NULL) = (end_reason IS NULL))
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX sessions_live_by_subject ON sessions (sub) WHERE ended_at IS NULL;
    CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;
    CREATE INDEX sessions_live_by_expiry ON sessions (idle_expires_at) WHERE ended_at IS NULL;

    CREATE TABLE used_challenges (
      hash       BLOB NOT NULL PRIMARY KEY,
      expires_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX used_challenges_by_expiry ON used_challenges (expires_at);

    CREATE TABLE link_tickets (
      hash         BLOB NOT NULL PRIMARY KEY,
      -- One ticket for each guest session: a newer one voids it.
      guest_sid    BLOB NOT NULL UNIQUE,
      account_sub  BLOB NOT NULL,
      method       TEXT NOT NULL,
      account_mask TEXT NOT NULL,
      expires_at   INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX link_tickets_by_expiry ON link_tickets (expires_at);

    CREATE TABLE qr_grants (
      qr_session_id TEXT NOT NULL PRIMARY KEY,
      sid           BLOB,
      created_at    INTEGER NOT NULL,
      revoked_at    INTEGER
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE merges (
      merge_id        BLOB NOT NULL PRIMARY KEY,
      guest_sub       BLOB NOT NULL,
      guest_sid       BLOB NOT NULL,
      target_sub      BLOB NOT NULL,
      target_sid      BLOB NOT NULL,
      first_login     INTEGER NOT NULL,
      -- 0 wanted, 1 started, 2 completed, 3 abandoned
      state           INTEGER NOT NULL CHECK (state IN (0, 1, 2, 3)),
      plan_id         TEXT,
      plan_digest     TEXT,
      migration_id    TEXT,
      attempts        INTEGER NOT NULL,
      next_attempt_at INTEGER NOT NULL,
      last_error      TEXT,
      created_at      INTEGER NOT NULL,
      changed_at      INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    -- A guest goes into one account at a time.
    CREATE UNIQUE INDEX merges_open_by_guest ON merges (guest_sub) WHERE state IN (0, 1);
    CREATE INDEX merges_due ON merges (next_attempt_at) WHERE state = 0;
    """,

    // 2: sessions that a QR code began are confirmed by another one.
    """
    ALTER TABLE sessions ADD COLUMN confirmed_at INTEGER;
    CREATE INDEX sessions_live_by_device ON sessions (device_key) WHERE ended_at IS NULL AND device_key IS NOT NULL;
    """,

    // 3: tries to sign in are counted.
    """
    CREATE TABLE sign_in_attempts (
      identifier_hash BLOB NOT NULL,
      -- Empty for devices that the account was never used on.
      device_key      TEXT NOT NULL,
      failures        INTEGER NOT NULL,
      last_at         INTEGER NOT NULL,
      PRIMARY KEY (identifier_hash, device_key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX sign_in_attempts_by_time ON sign_in_attempts (last_at);
    """,

    // 4: security events are recorded, each tied to those before it.
    """
    CREATE TABLE audit_events (
      seq     INTEGER NOT NULL PRIMARY KEY,
      kind    TEXT NOT NULL,
      at      INTEGER NOT NULL,
      sub     BLOB,
      sid     BLOB,
      address TEXT NOT NULL,
      detail  TEXT NOT NULL,
      link    BLOB NOT NULL CHECK (length(link) = 32)
    ) STRICT;
    CREATE INDEX audit_events_by_subject ON audit_events (sub, seq) WHERE sub IS NOT NULL;
    CREATE TRIGGER audit_events_stay BEFORE DELETE ON audit_events
      BEGIN SELECT RAISE(ABORT, 'audit events are never removed'); END;
    CREATE TRIGGER audit_events_are_final BEFORE UPDATE ON audit_events
      BEGIN SELECT RAISE(ABORT, 'audit events are never changed'); END;
    """,

    // 5: one-time codes.
    """
    CREATE TABLE one_time_codes (
      identifier_hash BLOB NOT NULL PRIMARY KEY,
      code_hash       BLOB NOT NULL,
      expires_at      INTEGER NOT NULL,
      attempts_left   INTEGER NOT NULL,
      sent_at         INTEGER NOT NULL,
      window_began_at INTEGER NOT NULL,
      sends           INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX one_time_codes_by_time ON one_time_codes (sent_at);
    """,

    // 6: sign-ins that are asked for again.
    """
    CREATE TABLE sign_in_replays (
      -- A keyed hash over the caller's idempotency key and its whole request, credential included.
      key_hash     BLOB NOT NULL PRIMARY KEY,
      sid          BLOB NOT NULL,
      previous_sub BLOB,
      wipe         INTEGER NOT NULL,
      merge_id     BLOB,
      expires_at   INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX sign_in_replays_by_expiry ON sign_in_replays (expires_at);
    """,

    // 7: how far subjects have come in guides.
    """
    CREATE TABLE guide_progress (
      sub        BLOB NOT NULL,
      guide_id   TEXT NOT NULL,
      -- 0 not started, 1 active, 2 completed
      status     INTEGER NOT NULL CHECK (status IN (0, 1, 2)),
      position   INTEGER NOT NULL,
      step_id    TEXT,
      revision   INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      PRIMARY KEY (sub, guide_id)
    ) STRICT, WITHOUT ROWID;
    """,

    // 8: guests live on several devices, move, are exported and deleted; keys are counted; subjects are disabled.
    """
    CREATE TABLE devices_8 (
      key_thumbprint    TEXT NOT NULL PRIMARY KEY,
      public_key_x      BLOB NOT NULL,
      public_key_y      BLOB NOT NULL,
      -- Null for a device that only a QR code brought in.
      device_id         TEXT,
      label             TEXT,
      platform          TEXT,
      os_version        TEXT,
      app_version       TEXT,
      guest_sub         BLOB,
      last_account_sub  BLOB,
      last_login_method TEXT,
      last_login_mask   TEXT,
      last_login_at     INTEGER,
      reinstalled_at    INTEGER,
      -- The highest counter that the key has signed; null for apps that count nothing.
      proof_counter     INTEGER,
      -- Since when two devices are known to hold the key.
      cloned_at         INTEGER,
      created_at        INTEGER NOT NULL,
      last_seen_at      INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO devices_8 (key_thumbprint, public_key_x, public_key_y, device_id, label, platform, os_version,
        app_version, guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, reinstalled_at,
        created_at, last_seen_at)
      SELECT key_thumbprint, public_key_x, public_key_y, device_id, label, platform, os_version,
        app_version, guest_sub, last_account_sub, last_login_method, last_login_mask, last_login_at, reinstalled_at,
        created_at, last_seen_at FROM devices;
    DROP TABLE devices;
    ALTER TABLE devices_8 RENAME TO devices;
    CREATE INDEX devices_by_guest ON devices (guest_sub) WHERE guest_sub IS NOT NULL;

    ALTER TABLE subjects ADD COLUMN disabled_at INTEGER;
    ALTER TABLE subjects ADD COLUMN deleted_at INTEGER;
    -- When all of the subject's data was handed out, and which version of its records that was.
    ALTER TABLE subjects ADD COLUMN exported_at INTEGER;
    ALTER TABLE subjects ADD COLUMN exported_version INTEGER;
    CREATE INDEX subjects_guests_by_use ON subjects (last_seen_at) WHERE kind = 0 AND deleted_at IS NULL;

    CREATE TABLE transfers (
      transfer_id    BLOB NOT NULL PRIMARY KEY,
      code_hash      BLOB NOT NULL UNIQUE,
      reference_hash BLOB NOT NULL UNIQUE,
      sub            BLOB NOT NULL,
      -- One for each session: a newer one voids it.
      sid            BLOB NOT NULL UNIQUE,
      -- 0 either, 1 kept, 2 revoked
      consent        INTEGER NOT NULL CHECK (consent IN (0, 1, 2)),
      address        TEXT NOT NULL,
      same_network   INTEGER NOT NULL,
      tries_left     INTEGER NOT NULL,
      created_at     INTEGER NOT NULL,
      expires_at     INTEGER NOT NULL,
      redeemed_sid   BLOB,
      challenge_hash BLOB,
      previous_sub   BLOB,
      sessions_ended INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX transfers_by_expiry ON transfers (expires_at);

    -- Subjects that were deleted here and whose records are yet to be.
    CREATE TABLE purges (
      sub             BLOB NOT NULL PRIMARY KEY,
      attempts        INTEGER NOT NULL,
      next_attempt_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX purges_due ON purges (next_attempt_at);
    """,

    // 9: more ways to sign in, and registrations that are asked for again.
    """
    -- Argon2id of a custom identifier's own secret.
    ALTER TABLE identities ADD COLUMN secret_hash TEXT;
    ALTER TABLE link_tickets ADD COLUMN qr_sid BLOB;
    ALTER TABLE sign_in_replays ADD COLUMN promoted INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX qr_grants_by_session ON qr_grants (sid) WHERE sid IS NOT NULL;
    CREATE TABLE unlocks (
      -- The key that proves it: one of its own, or the device's for a pattern.
      key_thumbprint TEXT NOT NULL,
      -- 1 key, 2 pattern
      kind           INTEGER NOT NULL CHECK (kind IN (1, 2)),
      sub            BLOB NOT NULL,
      device_key     TEXT NOT NULL,
      secret_hash    TEXT CHECK ((kind = 2) = (secret_hash IS NOT NULL)),
      tries_left     INTEGER NOT NULL,
      created_at     INTEGER NOT NULL,
      PRIMARY KEY (key_thumbprint, kind)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX unlocks_by_subject ON unlocks (sub);
    """,

    // 10: a start as a guest changes fewer pages.
    """
    CREATE TABLE used_challenges_10 (
      -- A challenge has one expiry, so this is as unique as its hash; what is used at one time stands together.
      expires_at INTEGER NOT NULL,
      hash       BLOB NOT NULL,
      PRIMARY KEY (expires_at, hash)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO used_challenges_10 (expires_at, hash) SELECT expires_at, hash FROM used_challenges;
    DROP TABLE used_challenges;
    ALTER TABLE used_challenges_10 RENAME TO used_challenges;
    -- Who asks for the sessions on a device asks for those of one subject.
    DROP INDEX sessions_live_by_device;
    """,

    // 11: the audit log may be trimmed at its old end. What is left goes on from a checkpoint that only the service can
    // make. The chain itself shows any other change, so no trigger is needed.
    """
    DROP TRIGGER audit_events_stay;
    DROP TRIGGER audit_events_are_final;
    CREATE TABLE audit_checkpoints (
      -- The last event that was forgotten, and its link.
      seq  INTEGER NOT NULL PRIMARY KEY,
      link BLOB NOT NULL CHECK (length(link) = 32),
      seal BLOB NOT NULL CHECK (length(seal) = 32),
      at   INTEGER NOT NULL
    ) STRICT;
    """,

    // 12: devices that a QR code bound to an account stay its devices.
    """
    -- The QR session that bound the device; null for an unlock that was enrolled on the device.
    ALTER TABLE unlocks ADD COLUMN qr_session_id TEXT;
    ALTER TABLE unlocks ADD COLUMN bound_by_key TEXT;
    ALTER TABLE unlocks ADD COLUMN bound_by_label TEXT;
    ALTER TABLE unlocks ADD COLUMN bound_scope TEXT CHECK ((qr_session_id IS NULL) = (bound_scope IS NULL));
    CREATE INDEX unlocks_by_qr_session ON unlocks (qr_session_id) WHERE qr_session_id IS NOT NULL;
    """,

    // 13: what each sign-in, each key that is replaced and each account that is deleted ask for is found, not searched.
    // None of these indexes has an entry for a guest, whose start is what happens most.
    """
    CREATE INDEX sessions_of_accounts ON sessions (sub, device_key) WHERE is_guest = 0;
    CREATE INDEX devices_by_last_account ON devices (last_account_sub) WHERE last_account_sub IS NOT NULL;
    CREATE INDEX unlocks_by_device ON unlocks (device_key);
    """,

    // 14: proofs that overtake each other on the way are no sign of a cloned key.
    """
    -- Which of the 64 numbers up to proof_counter the key has signed: bit n modulo 64 for number n. Null for a key that
    -- counted before this version; then no lower number is taken.
    ALTER TABLE devices ADD COLUMN proof_window INTEGER;
    """,

    // 15: what is over is forgotten everywhere, and a merge can be taken back.
    """
    CREATE TABLE merged_guests (
      guest_sub  BLOB NOT NULL,
      -- A device that the guest was on when it was merged.
      device_key TEXT NOT NULL,
      merged_at  INTEGER NOT NULL,
      PRIMARY KEY (guest_sub, device_key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX merged_guests_by_device ON merged_guests (device_key);
    CREATE INDEX merged_guests_by_time ON merged_guests (merged_at);
    CREATE INDEX merges_over ON merges (changed_at) WHERE state IN (2, 3);
    -- A grant goes with its session from now on. What is left here is of sessions that went before.
    DELETE FROM qr_grants WHERE sid IS NOT NULL AND sid NOT IN (SELECT sid FROM sessions);
    CREATE INDEX qr_grants_without_session ON qr_grants (created_at) WHERE sid IS NULL;
    """,
  ]
}
