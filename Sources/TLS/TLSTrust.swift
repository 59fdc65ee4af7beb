/// Which authorities may vouch for the other side.
package struct TLSTrust: Sendable {
  enum Source: Sendable {
    case system
    case anyone
    case anchors([X509Certificate], pem: [UInt8])
  }

  let source: Source

  /// The machine's own list.
  package static let system = TLSTrust(source: .system)

  /// Whoever answers: encrypted, and to nobody knows whom. For tests against certificates of no authority.
  package static let anyone = TLSTrust(source: .anyone)

  private init(source: Source) {
    self.source = source
  }

  /// The certificates of `pem`, and no others.
  package init(pem: [UInt8]) throws(TLSError) {
    guard let anchors = PEM.certificates(pem) else {
      throw TLSError(.configure, .us, .unusableTrust("the trust anchors are not PEM certificates"))
    }
    source = .anchors(anchors, pem: pem)
  }

  /// What tells one list from another, for binding resumed sessions to it.
  var fingerprintInput: [UInt8] {
    switch source {
    case .system: []
    case .anyone: [0]
    case .anchors(_, let pem): pem
    }
  }
}
