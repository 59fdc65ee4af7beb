extension SQLiteSchema {
  /// The later versions of `identity.db`.
  static let identityFrom16 = [
    // 16: what came of what, so that it ends with it, and when somebody last proved who they are.
    """
    -- Null for sessions of before, which began at authenticated_at.
    ALTER TABLE sessions ADD COLUMN began_at INTEGER;
    CREATE TABLE lineage (
      -- What was there first: a session, a code or a transfer; see LineageMember.
      ancestor   BLOB NOT NULL,
      -- What came of it, through whatever chain: a session, an unlock or an identity.
      descendant BLOB NOT NULL,
      PRIMARY KEY (descendant, ancestor)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX lineage_by_ancestor ON lineage (ancestor);
    -- The authority that a code's owner agreed to for a device.
    ALTER TABLE unlocks ADD COLUMN proven_at INTEGER;
    ALTER TABLE unlocks ADD COLUMN expires_at INTEGER;
    -- The authority of what a ticket stands for, and what that came of.
    DROP TABLE link_tickets;
    CREATE TABLE link_tickets (
      hash               BLOB NOT NULL PRIMARY KEY,
      -- One ticket for each guest session: a newer one voids it.
      guest_sid          BLOB NOT NULL UNIQUE,
      account_sub        BLOB NOT NULL,
      method             TEXT NOT NULL,
      account_mask       TEXT NOT NULL,
      expires_at         INTEGER NOT NULL,
      qr_sid             BLOB,
      scope              TEXT NOT NULL,
      proven_at          INTEGER NOT NULL,
      bound_key          TEXT,
      session_expires_at INTEGER NOT NULL,
      credential         BLOB
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX link_tickets_by_expiry ON link_tickets (expires_at);
    CREATE INDEX link_tickets_by_account ON link_tickets (account_sub);
    """,

    // 17: an address leads to an account once a code showed that it is its owner's, and codes and tries are counted for
    // who makes them.
    """
    ALTER TABLE identities ADD COLUMN verified_at INTEGER;
    -- An account without a password that has one way in was made by a code to that address. Of the others nobody knows:
    -- their password goes on leading to them, and a code verifies the address.
    UPDATE identities SET verified_at = created_at
    WHERE kind IN (1, 2) AND sub NOT IN (SELECT sub FROM passwords)
      AND 1 = (SELECT count(*) FROM identities AS others WHERE others.sub = identities.sub);

    -- What is under way is forgotten: it would hold for minutes.
    DROP TABLE one_time_codes;
    CREATE TABLE one_time_codes (
      identifier_hash BLOB NOT NULL,
      -- Whose code it is: a device, a network, or empty for the count of what all strangers were sent.
      share           TEXT NOT NULL,
      handle_hash     BLOB NOT NULL,
      code_hash       BLOB NOT NULL,
      expires_at      INTEGER NOT NULL,
      attempts_left   INTEGER NOT NULL,
      -- Tries of callers from elsewhere who say no handle.
      elsewhere_left  INTEGER NOT NULL,
      sent_at         INTEGER NOT NULL,
      window_began_at INTEGER NOT NULL,
      sends           INTEGER NOT NULL,
      PRIMARY KEY (identifier_hash, share)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX one_time_codes_by_time ON one_time_codes (sent_at);

    CREATE TABLE sign_in_sources (
      sub     BLOB NOT NULL,
      -- An IPv4 address or IPv6 /64 that a person signed in from.
      source  TEXT NOT NULL,
      last_at INTEGER NOT NULL,
      PRIMARY KEY (sub, source)
    ) STRICT, WITHOUT ROWID;
    """,
    // 18: tokens say what their owner proved themselves by; of sessions from before nobody knows.
    "ALTER TABLE sessions ADD COLUMN proven_by TEXT;",

    // 19: what owners are to be told is written down with the change, and goes once it was delivered.
    """
    CREATE TABLE notices (
      -- The same for every try to deliver it, so that a doubled one is recognised.
      key       TEXT NOT NULL PRIMARY KEY,
      notice    TEXT NOT NULL,
      -- The canonical form of an e-mail address or a phone number.
      recipient TEXT NOT NULL,
      locale    TEXT,
      at        INTEGER NOT NULL,
      attempts  INTEGER NOT NULL,
      due_at    INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX notices_by_recipient ON notices (recipient, at);
    CREATE INDEX notices_by_due ON notices (due_at);
    CREATE INDEX notices_by_time ON notices (at);
    """,

    // 20: what is done by one at a time says by whom.
    """
    CREATE TABLE upkeep (
      chore  TEXT NOT NULL PRIMARY KEY,
      -- Of this turn alone.
      holder BLOB NOT NULL CHECK (length(holder) = 16),
      until  INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,

    // 21: a migration that was taken back is known by its number, whoever still asks for it.
    """
    CREATE TABLE recalled_merges (
      guest_sub    BLOB NOT NULL,
      -- A migration of the guest that was taken back: nobody makes the guest a part of an account by it again.
      migration_id TEXT NOT NULL,
      recalled_at  INTEGER NOT NULL,
      PRIMARY KEY (guest_sub, migration_id)
    ) STRICT, WITHOUT ROWID;
    """,

    // 22: what an overtaken call of the QR service asks for is known by its turn.
    """
    -- The last turn that it was asked for in; null while nobody said one.
    ALTER TABLE qr_grants ADD COLUMN turn INTEGER;
    """,

    // 23: a log that was moved here has the chains that it had there.
    """
    -- Null for the file's own chain, 0, in which an event's number is its place.
    ALTER TABLE audit_events ADD COLUMN chain INTEGER;
    ALTER TABLE audit_events ADD COLUMN number INTEGER CHECK ((chain IS NULL) = (number IS NULL));
    CREATE UNIQUE INDEX audit_events_of_others ON audit_events (chain, number) WHERE chain IS NOT NULL;
    CREATE TABLE audit_checkpoints_23 (
      chain INTEGER NOT NULL PRIMARY KEY,
      -- The last event that was forgotten, by its number, and its link.
      seq   INTEGER NOT NULL,
      link  BLOB NOT NULL CHECK (length(link) = 32),
      seal  BLOB NOT NULL CHECK (length(seal) = 32),
      at    INTEGER NOT NULL
    ) STRICT;
    INSERT INTO audit_checkpoints_23 (chain, seq, link, seal, at)
      SELECT 0, seq, link, seal, at FROM audit_checkpoints ORDER BY seq DESC LIMIT 1;
    DROP TABLE audit_checkpoints;
    ALTER TABLE audit_checkpoints_23 RENAME TO audit_checkpoints;
    """,
  ]
}
