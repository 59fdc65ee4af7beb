/// The database file of the QR service.
package enum QRSchema {
  package static let current = SQLiteSchema(versions: [version1, version2, version3])

  /// Hashes are SHA-256; ids and keys are raw bytes; times are milliseconds since the epoch. `state` has the numbers of
  /// `QRSessionState`; the columns after it are NULL until the state that brings them.
  private static let version1 = """
    CREATE TABLE qr_sessions (
      id BLOB NOT NULL PRIMARY KEY,
      poll_hash BLOB NOT NULL,
      reference_hash BLOB NOT NULL,
      user_code_hash BLOB NOT NULL,
      purpose INTEGER NOT NULL,
      client_id TEXT NOT NULL,
      scope TEXT NOT NULL,
      challenge BLOB NOT NULL,
      initiator_label TEXT,
      initiator_platform TEXT,
      initiator_app TEXT,
      initiator_address TEXT NOT NULL,
      initiator_key_thumbprint TEXT,
      initiator_sid BLOB,
      device_key BLOB,
      issued_at INTEGER NOT NULL,
      expires_at INTEGER NOT NULL,
      version INTEGER NOT NULL,
      state INTEGER NOT NULL,
      sub BLOB,
      sid BLOB,
      ticket_hash BLOB,
      ticket_expires_at INTEGER,
      needs_check_code INTEGER,
      account_mask TEXT,
      granted_scope TEXT,
      confirmed_at INTEGER,
      consumed_at INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX qr_sessions_by_poll_hash ON qr_sessions (poll_hash);
    CREATE UNIQUE INDEX qr_sessions_by_reference_hash ON qr_sessions (reference_hash);
    CREATE UNIQUE INDEX qr_sessions_by_user_code_hash ON qr_sessions (user_code_hash);
    CREATE INDEX qr_sessions_by_expiry ON qr_sessions (expires_at);
    """

  /// 2: actions, what a scanner has to do besides agreeing, and what the confirming device signed.
  private static let version2 = """
    ALTER TABLE qr_sessions ADD COLUMN action_text TEXT;
    ALTER TABLE qr_sessions ADD COLUMN action_amount TEXT;
    ALTER TABLE qr_sessions ADD COLUMN action_currency TEXT;
    ALTER TABLE qr_sessions ADD COLUMN action_reference TEXT;
    ALTER TABLE qr_sessions ADD COLUMN needs_reauth INTEGER;
    ALTER TABLE qr_sessions ADD COLUMN heard_beacon INTEGER;
    ALTER TABLE qr_sessions ADD COLUMN confirm_proof BLOB;
    """

  /// 3: how old a proof the confirming token was.
  private static let version3 = """
    ALTER TABLE qr_sessions ADD COLUMN confirmer_proven_at INTEGER;
    """
}
