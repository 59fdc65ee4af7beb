/// Which service is meant by a name in a certificate.
package struct CertificateNames: Sendable {
  /// Each service's own name, as a DNS name.
  static let standard = ["identity=latchkey-identity", "qr=latchkey-qr", "migrator=latchkey-migrator"]

  private let services: [String: PeerService]

  /// Entries such as `qr=qr.internal` or `qr=spiffe://example.org/qr`. Nil for another service's name, for a name that
  /// stands for two services, and for an entry without a name.
  init?(_ entries: [String]) {
    var services: [String: PeerService] = [:]
    for entry in entries {
      let parts = entry.split(separator: "=", maxSplits: 1)
      guard parts.count == 2, let service = PeerService(rawValue: "latchkey-\(parts[0])") else { return nil }
      guard services.updateValue(service, forKey: String(parts[1])) == nil else { return nil }
    }
    self.services = services
  }

  /// The service that a certificate with these subject alternative names is for. Nil when it names none or several:
  /// which of them counts must not be a matter of their order. Names are compared byte for byte.
  func service(_ subjectAlternativeNames: [String]) -> PeerService? {
    let named = Set(subjectAlternativeNames.compactMap { services[$0] })
    return named.count == 1 ? named.first : nil
  }
}
