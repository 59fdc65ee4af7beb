/// Which authorities may vouch for the other side.
package struct TLSTrust: Sendable {
  enum Source: Sendable {
    case system
    case anchors([X509Certificate], pem: [UInt8])
  }

  let source: Source

  /// The machine's own list.
  package static let system = TLSTrust(source: .system)

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
    case .anchors(_, let pem): pem
    }
  }
}
