import LatchkeyModel

/// A mail for a submission server (RFC 6409).
package struct MailSubmission: Sendable {
  /// How the connection is kept from being read.
  package enum Security: String, Sendable, CaseIterable {
    /// TLS from the first byte (RFC 8314), port 465.
    case tls
    /// Upgraded before anything else is said, and given up if it cannot be; port 587.
    case starttls
    /// Cleartext, for a relay on this machine.
    case none
  }

  package struct Server: Sendable {
    package var host: String
    package var port: Int
    package var security: Security
    package var user: String?
    package var password: RedactedSecret?
    /// A file of certificates in PEM that the server's must chain to; nil for those of the system.
    package var authoritiesFile: String?

    package init(
      host: String, port: Int, security: Security, user: String? = nil, password: RedactedSecret? = nil,
      authoritiesFile: String? = nil
    ) {
      self.host = host
      self.port = port
      self.security = security
      self.user = user
      self.password = password
      self.authoritiesFile = authoritiesFile
    }
  }

  package var server: Server
  package var sender: String
  package var recipient: String
  /// Header and body (RFC 5322), lines ended by CR LF.
  package var text: [UInt8]

  package init(server: Server, sender: String, recipient: String, text: [UInt8]) {
    self.server = server
    self.sender = sender
    self.recipient = recipient
    self.text = text
  }
}
