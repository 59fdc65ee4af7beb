import CSSL

/// The protocol versions that Latchkey speaks; older ones are refused.
package enum TLSVersion: Sendable, Comparable {
  case tls12
  case tls13

  var number: Int32 {
    switch self {
    case .tls12: TLS1_2_VERSION
    case .tls13: TLS1_3_VERSION
    }
  }

  init?(number: Int32) {
    switch number {
    case TLS1_2_VERSION: self = .tls12
    case TLS1_3_VERSION: self = .tls13
    default: return nil
    }
  }
}
