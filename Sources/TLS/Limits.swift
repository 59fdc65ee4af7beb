/// The bounds of this module, each with the reason for its number.
package enum Limits {
  /// Certificates between a leaf and a trust anchor. Public hierarchies use two; a longer chain only costs signatures.
  static let chainDepth: Int32 = 5
  /// Bytes of a client's certificate message: a chain of the allowed depth with names to spare. OpenSSL makes room for what
  /// the message says that it has; its own bound is 100 KiB.
  package static let clientCertificateBytes = 32 * 1024
  /// How long a ticket resumes a session: long enough for a phone that comes back, short enough that an ended
  /// client certificate does not live on in tickets. RFC 8446 §4.6.1 allows seven days.
  static let sessionLifetimeSeconds = 2 * 60 * 60
  /// Tickets that a TLS 1.3 handshake hands out. One is enough for a client that reconnects once; the default of two
  /// costs another 250 bytes and another encryption for each handshake.
  static let ticketsPerHandshake = 1
  /// Sessions that a client keeps for resumption, one per host: a channel talks to a handful of hosts.
  static let resumableSessions = 64
  /// Space set aside per record beside its plaintext: header 5, explicit nonce 8, tag 16, and TLS 1.3's content type.
  static let recordOverhead = 40
  /// The largest plaintext of one record, RFC 8446 §5.1.
  package static let recordPlaintext = 16_384
  /// Records without data that may come in one read, such as key updates (RFC 8446 §4.6.3), one that asks for an answer
  /// counting twice: each has keys derived, some microseconds. Peers update their keys after millions of records, and
  /// servers send a ticket or two.
  package static let idleRecordsPerRead = 64
  /// Free space offered to a read when the size of what is coming is not known.
  static let minimumRead = 1_024
}
