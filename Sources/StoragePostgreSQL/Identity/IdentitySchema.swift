extension PostgreSQLSchema {
  /// The tables of the identity service.
  ///
  /// Ids are 16 random bytes, times are milliseconds since the epoch in UTC, and texts are ordered by their bytes. No token
  /// and no raw secret is in any column: tickets and challenges are SHA-256 hashes, passwords Argon2id strings, and a
  /// refresh token cannot be made from its session's row without the service's own secret.
  ///
  /// What each refresh or start changes is in no index, or PostgreSQL would write every index of the row anew: an expiry
  /// is indexed by the span of time that it is in.
  package static let identity = PostgreSQLSchema(
    part: "identity",
    steps: [
      .expand(
        "the first tables",
        IdentitySchema.people + IdentitySchema.ways + IdentitySchema.record + PostgreSQLSigningKeys.statements
          + PostgreSQLDocuments.statements + PostgreSQLNews.statements + PostgreSQLMembers.statements),
      .expand("commits that can be looked up", CommitLane.statements),
    ])
}

private enum IdentitySchema {
  /// Who there is, on which devices, in which sessions.
  static let people = [
    """
    CREATE TABLE subjects (
      sub              uuid NOT NULL PRIMARY KEY,
      -- 0 guest, 1 account, 2 merged into merged_into
      kind             bigint NOT NULL CHECK (kind IN (0, 1, 2)),
      merged_into      uuid CHECK ((kind = 2) = (merged_into IS NOT NULL)),
      nickname         text COLLATE "C",
      avatar_url       text COLLATE "C",
      locale           text COLLATE "C",
      created_at       bigint NOT NULL,
      last_seen_at     bigint NOT NULL,
      last_seen_hour   bigint NOT NULL GENERATED ALWAYS AS (last_seen_at / 3600000) STORED,
      disabled_at      bigint,
      deleted_at       bigint,
      -- When all of the subject's data was handed out, and which version of its records that was.
      exported_at      bigint,
      exported_version bigint
    ) WITH (fillfactor = 80)
    """,
    """
    CREATE INDEX subjects_guests_by_use ON subjects (last_seen_hour) WHERE kind = 0 AND deleted_at IS NULL
    """,

    """
    CREATE TABLE devices (
      key_thumbprint    text COLLATE "C" NOT NULL PRIMARY KEY,
      public_key_x      bytea NOT NULL,
      public_key_y      bytea NOT NULL,
      -- Null for a device that only a QR code brought in.
      device_id         text COLLATE "C",
      label             text COLLATE "C",
      platform          text COLLATE "C",
      os_version        text COLLATE "C",
      app_version       text COLLATE "C",
      guest_sub         uuid,
      last_account_sub  uuid,
      last_login_method text COLLATE "C",
      last_login_mask   text COLLATE "C",
      last_login_at     bigint,
      reinstalled_at    bigint,
      -- The highest counter that the key has signed, and which of the 64 numbers up to it: bit n modulo 64 for number n.
      -- Null for apps that count nothing.
      proof_counter     bigint,
      proof_window      bigint,
      -- Since when two devices are known to hold the key.
      cloned_at         bigint,
      created_at        bigint NOT NULL,
      last_seen_at      bigint NOT NULL
    ) WITH (fillfactor = 80)
    """,
    "CREATE INDEX devices_by_guest ON devices (guest_sub) WHERE guest_sub IS NOT NULL",
    "CREATE INDEX devices_by_last_account ON devices (last_account_sub) WHERE last_account_sub IS NOT NULL",

    """
    CREATE TABLE sessions (
      sid                  uuid NOT NULL PRIMARY KEY,
      sub                  uuid NOT NULL,
      is_guest             boolean NOT NULL,
      client_id            text COLLATE "C" NOT NULL,
      scope                text COLLATE "C" NOT NULL,
      method               text COLLATE "C" NOT NULL,
      device_key           text COLLATE "C",
      device_label         text COLLATE "C",
      device_platform      text COLLATE "C",
      bound_key            text COLLATE "C",
      refresh_seed         bytea NOT NULL,
      began_at             bigint NOT NULL,
      authenticated_at     bigint NOT NULL,
      proven_by            text COLLATE "C",
      confirmed_at         bigint,
      generation           bigint NOT NULL,
      rotated_at           bigint NOT NULL,
      idle_expires_at      bigint NOT NULL,
      -- In quarters of a day.
      idle_expires_quarter bigint NOT NULL GENERATED ALWAYS AS (idle_expires_at / 21600000) STORED,
      absolute_expires_at  bigint NOT NULL,
      ended_at             bigint,
      end_reason           bigint CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
      -- The transaction that ended it: see PostgreSQLEndings.
      ended_in             bigint CHECK ((ended_at IS NULL) = (ended_in IS NULL))
    ) WITH (fillfactor = 80)
    """,
    "CREATE INDEX sessions_by_subject ON sessions (sub, device_key)",
    "CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL",
    // Grows at its end only, and only when a session ends.
    "CREATE INDEX sessions_ended_in ON sessions (ended_in) WHERE ended_in IS NOT NULL",
    "CREATE INDEX sessions_live_by_expiry ON sessions (idle_expires_quarter) WHERE ended_at IS NULL",

    """
    CREATE TABLE lineage (
      -- What was there first: a session, a code or a transfer; see LineageMember.
      ancestor   bytea NOT NULL,
      -- What came of it, through whatever chain: a session, an unlock or an identity.
      descendant bytea NOT NULL,
      PRIMARY KEY (descendant, ancestor)
    )
    """,
    "CREATE INDEX lineage_by_ancestor ON lineage (ancestor)",

    """
    CREATE TABLE guide_progress (
      sub        uuid NOT NULL,
      guide_id   text COLLATE "C" NOT NULL,
      -- 0 not started, 1 active, 2 completed
      status     bigint NOT NULL CHECK (status IN (0, 1, 2)),
      position   bigint NOT NULL,
      step_id    text COLLATE "C",
      revision   bigint NOT NULL,
      updated_at bigint NOT NULL,
      PRIMARY KEY (sub, guide_id)
    ) WITH (fillfactor = 80)
    """,
  ]

  /// What leads to accounts, and what is counted and used up on the way.
  static let ways = [
    """
    CREATE TABLE identities (
      kind        bigint NOT NULL,
      value       text COLLATE "C" NOT NULL,
      sub         uuid NOT NULL,
      mask        text COLLATE "C" NOT NULL,
      created_at  bigint NOT NULL,
      -- Argon2id of a custom identifier's own secret.
      secret_hash text COLLATE "C",
      verified_at bigint,
      PRIMARY KEY (kind, value)
    )
    """,
    "CREATE INDEX identities_by_subject ON identities (sub)",

    """
    CREATE TABLE passwords (
      sub        uuid NOT NULL PRIMARY KEY,
      hash       text COLLATE "C" NOT NULL,
      changed_at bigint NOT NULL
    )
    """,

    """
    CREATE TABLE unlocks (
      -- The key that proves it: one of its own, or the device's for a pattern.
      key_thumbprint text COLLATE "C" NOT NULL,
      -- 1 key, 2 pattern
      kind           bigint NOT NULL CHECK (kind IN (1, 2)),
      sub            uuid NOT NULL,
      device_key     text COLLATE "C" NOT NULL,
      secret_hash    text COLLATE "C" CHECK ((kind = 2) = (secret_hash IS NOT NULL)),
      tries_left     bigint NOT NULL,
      created_at     bigint NOT NULL,
      -- The QR session that bound the device; null for an unlock that was enrolled on the device.
      qr_session_id  text COLLATE "C",
      bound_by_key   text COLLATE "C",
      bound_by_label text COLLATE "C",
      bound_scope    text COLLATE "C" CHECK ((qr_session_id IS NULL) = (bound_scope IS NULL)),
      -- The authority that a code's owner agreed to for a device.
      proven_at      bigint,
      expires_at     bigint,
      PRIMARY KEY (key_thumbprint, kind)
    ) WITH (fillfactor = 80)
    """,
    "CREATE INDEX unlocks_by_subject ON unlocks (sub)",
    "CREATE INDEX unlocks_by_device ON unlocks (device_key)",
    """
    CREATE INDEX unlocks_by_qr_session ON unlocks (qr_session_id) WHERE qr_session_id IS NOT NULL
    """,

    """
    CREATE TABLE used_challenges (
      -- A challenge has one expiry, so this is as unique as its hash; what is used at one time stands together.
      expires_at bigint NOT NULL,
      hash       bytea NOT NULL,
      PRIMARY KEY (expires_at, hash)
    )
    """,

    """
    CREATE TABLE one_time_codes (
      identifier_hash bytea NOT NULL,
      -- Whose code it is: a device, a network, or empty for the count of what all strangers were sent.
      share           text COLLATE "C" NOT NULL,
      handle_hash     bytea NOT NULL,
      code_hash       bytea NOT NULL,
      expires_at      bigint NOT NULL,
      attempts_left   bigint NOT NULL,
      -- Tries of callers from elsewhere who say no handle.
      elsewhere_left  bigint NOT NULL,
      sent_at         bigint NOT NULL,
      window_began_at bigint NOT NULL,
      sends           bigint NOT NULL,
      PRIMARY KEY (identifier_hash, share)
    ) WITH (fillfactor = 80)
    """,
    "CREATE INDEX one_time_codes_by_time ON one_time_codes (sent_at)",

    """
    CREATE TABLE sign_in_attempts (
      identifier_hash bytea NOT NULL,
      -- Empty for devices that the account was never used on.
      device_key      text COLLATE "C" NOT NULL,
      failures        bigint NOT NULL,
      last_at         bigint NOT NULL,
      last_hour       bigint NOT NULL GENERATED ALWAYS AS (last_at / 3600000) STORED,
      PRIMARY KEY (identifier_hash, device_key)
    ) WITH (fillfactor = 80)
    """,
    "CREATE INDEX sign_in_attempts_by_time ON sign_in_attempts (last_hour)",

    """
    CREATE TABLE sign_in_replays (
      -- A keyed hash over the caller's idempotency key and its whole request, credential included.
      key_hash     bytea NOT NULL PRIMARY KEY,
      sid          uuid NOT NULL,
      previous_sub uuid,
      wipe         boolean NOT NULL,
      promoted     boolean NOT NULL,
      merge_id     uuid,
      expires_at   bigint NOT NULL
    )
    """,
    "CREATE INDEX sign_in_replays_by_expiry ON sign_in_replays (expires_at)",

    """
    CREATE TABLE sign_in_sources (
      sub     uuid NOT NULL,
      -- An IPv4 address or IPv6 /64 that a person signed in from.
      source  text COLLATE "C" NOT NULL,
      last_at bigint NOT NULL,
      PRIMARY KEY (sub, source)
    )
    """,

    """
    CREATE TABLE link_tickets (
      hash               bytea NOT NULL PRIMARY KEY,
      -- One ticket for each guest session: a newer one voids it.
      guest_sid          uuid NOT NULL UNIQUE,
      account_sub        uuid NOT NULL,
      method             text COLLATE "C" NOT NULL,
      account_mask       text COLLATE "C" NOT NULL,
      expires_at         bigint NOT NULL,
      qr_sid             uuid,
      scope              text COLLATE "C" NOT NULL,
      proven_at          bigint NOT NULL,
      bound_key          text COLLATE "C",
      session_expires_at bigint NOT NULL,
      -- What it stands for, and what that came of.
      credential         bytea
    )
    """,
    "CREATE INDEX link_tickets_by_expiry ON link_tickets (expires_at)",
    "CREATE INDEX link_tickets_by_account ON link_tickets (account_sub)",

    """
    CREATE TABLE qr_grants (
      qr_session_id text COLLATE "C" NOT NULL PRIMARY KEY,
      sid           uuid,
      created_at    bigint NOT NULL,
      revoked_at    bigint,
      -- The last turn that it was asked for in, of the QR service's.
      turn          bigint
    )
    """,
    "CREATE INDEX qr_grants_by_session ON qr_grants (sid) WHERE sid IS NOT NULL",
    "CREATE INDEX qr_grants_without_session ON qr_grants (created_at) WHERE sid IS NULL",

    """
    CREATE TABLE transfers (
      transfer_id    uuid NOT NULL PRIMARY KEY,
      code_hash      bytea NOT NULL UNIQUE,
      reference_hash bytea NOT NULL UNIQUE,
      sub            uuid NOT NULL,
      -- One for each session: a newer one voids it.
      sid            uuid NOT NULL UNIQUE,
      -- 0 either, 1 kept, 2 revoked
      consent        bigint NOT NULL CHECK (consent IN (0, 1, 2)),
      address        text COLLATE "C" NOT NULL,
      same_network   boolean NOT NULL,
      tries_left     bigint NOT NULL,
      created_at     bigint NOT NULL,
      expires_at     bigint NOT NULL,
      redeemed_sid   uuid,
      challenge_hash bytea,
      previous_sub   uuid,
      sessions_ended bigint
    ) WITH (fillfactor = 80)
    """,
    "CREATE INDEX transfers_by_expiry ON transfers (expires_at)",
    "CREATE INDEX transfers_by_subject ON transfers (sub)",
  ]

  /// What becomes of guests' data and of deleted subjects, and the record of what happened.
  static let record = [
    """
    CREATE TABLE merges (
      merge_id        uuid NOT NULL PRIMARY KEY,
      guest_sub       uuid NOT NULL,
      guest_sid       uuid NOT NULL,
      target_sub      uuid NOT NULL,
      target_sid      uuid NOT NULL,
      first_login     boolean NOT NULL,
      -- 0 wanted, 1 started, 2 completed, 3 abandoned
      state           bigint NOT NULL CHECK (state IN (0, 1, 2, 3)),
      plan_id         text COLLATE "C",
      plan_digest     text COLLATE "C",
      migration_id    text COLLATE "C",
      attempts        bigint NOT NULL,
      next_attempt_at bigint NOT NULL,
      last_error      text COLLATE "C",
      created_at      bigint NOT NULL,
      changed_at      bigint NOT NULL
    )
    """,
    // A guest goes into one account at a time.
    "CREATE UNIQUE INDEX merges_open_by_guest ON merges (guest_sub) WHERE state IN (0, 1)",
    "CREATE INDEX merges_due ON merges (next_attempt_at) WHERE state = 0",
    "CREATE INDEX merges_over ON merges (changed_at) WHERE state IN (2, 3)",

    """
    CREATE TABLE merged_guests (
      guest_sub  uuid NOT NULL,
      -- A device that the guest was on when it was merged.
      device_key text COLLATE "C" NOT NULL,
      merged_at  bigint NOT NULL,
      PRIMARY KEY (guest_sub, device_key)
    )
    """,
    "CREATE INDEX merged_guests_by_device ON merged_guests (device_key)",
    "CREATE INDEX merged_guests_by_time ON merged_guests (merged_at)",

    """
    CREATE TABLE recalled_merges (
      guest_sub    uuid NOT NULL,
      -- A migration of the guest that was taken back: nobody makes the guest a part of an account by it again.
      migration_id text COLLATE "C" NOT NULL,
      recalled_at  bigint NOT NULL,
      PRIMARY KEY (guest_sub, migration_id)
    )
    """,

    """
    CREATE TABLE purges (
      sub             uuid NOT NULL PRIMARY KEY,
      attempts        bigint NOT NULL,
      next_attempt_at bigint NOT NULL
    )
    """,
    "CREATE INDEX purges_due ON purges (next_attempt_at)",

    """
    CREATE TABLE upkeep (
      -- What one instance at a time does.
      chore  text COLLATE "C" NOT NULL PRIMARY KEY,
      -- Who does it: of this turn alone.
      holder bytea NOT NULL CHECK (length(holder) = 16),
      until  bigint NOT NULL
    )
    """,

    """
    CREATE TABLE notices (
      -- The same for every try to deliver it, so that a doubled one is recognised.
      key       text COLLATE "C" NOT NULL PRIMARY KEY,
      notice    text COLLATE "C" NOT NULL,
      -- The canonical form of an e-mail address or a phone number.
      recipient text COLLATE "C" NOT NULL,
      locale    text COLLATE "C",
      at        bigint NOT NULL,
      attempts  bigint NOT NULL,
      due_at    bigint NOT NULL
    )
    """,
    "CREATE INDEX notices_by_recipient ON notices (recipient, at)",
    "CREATE INDEX notices_by_due ON notices (due_at)",
    "CREATE INDEX notices_by_time ON notices (at)",

    """
    CREATE TABLE audit_events (
      -- In the log; the order of places is not that of commits.
      place   bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
      -- Of the connection that appended it.
      chain   bigint NOT NULL,
      -- In its chain: 1 for the first, then without a gap.
      seq     bigint NOT NULL,
      kind    text COLLATE "C" NOT NULL,
      at      bigint NOT NULL,
      sub     uuid,
      sid     uuid,
      address text COLLATE "C" NOT NULL,
      detail  text COLLATE "C" NOT NULL,
      link    bytea NOT NULL CHECK (length(link) = 32),
      PRIMARY KEY (chain, seq)
    )
    """,
    "CREATE INDEX audit_events_by_subject ON audit_events (sub, place) WHERE sub IS NOT NULL",
    """
    CREATE TABLE audit_checkpoints (
      chain bigint NOT NULL PRIMARY KEY,
      -- The last event that was forgotten, and its link.
      seq   bigint NOT NULL,
      link  bytea NOT NULL CHECK (length(link) = 32),
      seal  bytea NOT NULL CHECK (length(seal) = 32),
      at    bigint NOT NULL
    )
    """,
  ]
}
