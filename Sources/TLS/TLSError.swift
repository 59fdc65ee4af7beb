/// Why a TLS session, or what configures one, failed.
package struct TLSError: Error, Sendable, Equatable {
  package enum Operation: Sendable {
    case configure
    case handshake
    case receive
    case send
  }

  /// Whose fault it was.
  package enum Fault: Sendable {
    /// The other side broke the protocol, or is not who it must be.
    case peer
    /// This side's configuration: its certificate, its trust, its protocol list.
    case us
    /// The library or the machine.
    case system
  }

  package enum Reason: Sendable, Equatable {
    /// The certificate chain or private key of this side cannot be used.
    case unusableIdentity(String)
    /// The trust anchors of this side cannot be used.
    case unusableTrust(String)
    /// No chain from the peer's certificate to a trust anchor; the text is OpenSSL's.
    case untrustedCertificate(String)
    /// A certificate of the peer's chain is past its end or before its start.
    case certificateOutOfDate
    /// The peer's certificate names another host.
    case wrongHost
    /// The peer must show a certificate and showed none.
    case certificateMissing
    /// Both sides named application protocols, and none is common, or the peer chose none where one is required.
    case noCommonProtocol
    /// No common version, cipher or group.
    case noCommonParameters
    /// The bytes are not TLS.
    case notTLS
    /// The peer refused with this alert (RFC 8446 §6).
    case alert(UInt8)
    /// The peer broke the protocol; the text is OpenSSL's.
    case protocolViolation(String)
    /// The peer did not finish the handshake in time.
    case handshakeTimeout
    /// The connection ended within the handshake.
    case closedInHandshake
    /// The peer does not read, and makes us answer.
    case unreadOutput
    /// The peer sends records that hold no data, such as key updates, and goes on with it.
    case idleRecords
    /// The session has already ended.
    case closed
    /// The library failed; the text is OpenSSL's.
    case library(String)
  }

  package var operation: Operation
  package var fault: Fault
  package var reason: Reason

  package init(_ operation: Operation, _ fault: Fault, _ reason: Reason) {
    self.operation = operation
    self.fault = fault
    self.reason = reason
  }

  /// Whether another connection can fare better with nothing changed on either side.
  package var isTransient: Bool {
    switch reason {
    case .handshakeTimeout, .closedInHandshake, .unreadOutput, .idleRecords, .closed, .library: true
    case .alert(let alert): alert == 80  // internal_error: the peer's trouble of the moment.
    default: false
    }
  }
}

extension TLSError: CustomStringConvertible {
  package var description: String {
    switch reason {
    case .unusableIdentity(let text): "cannot use the certificate or key: \(text)"
    case .unusableTrust(let text): "cannot use the trust anchors: \(text)"
    case .untrustedCertificate(let text): "the peer's certificate is not trusted: \(text)"
    case .certificateOutOfDate: "the peer's certificate is out of date"
    case .wrongHost: "the peer's certificate is for another host"
    case .certificateMissing: "the peer showed no certificate"
    case .noCommonProtocol: "no common application protocol"
    case .noCommonParameters: "no common version, cipher or group"
    case .notTLS: "the peer does not speak TLS"
    case .alert(let alert): "the peer refused with TLS alert \(alert)"
    case .protocolViolation(let text): "the peer broke the TLS protocol: \(text)"
    case .handshakeTimeout: "the TLS handshake took too long"
    case .closedInHandshake: "the connection ended within the TLS handshake"
    case .unreadOutput: "the peer does not read what TLS answers"
    case .idleRecords: "the peer sends too many records without data"
    case .closed: "the TLS session has ended"
    case .library(let text): "OpenSSL failed: \(text)"
    }
  }
}
