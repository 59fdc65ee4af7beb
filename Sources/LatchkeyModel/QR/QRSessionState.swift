/// Where a QR session stands. The numbers are those of the wire and of storage.
package enum QRSessionState: Int, Sendable, CaseIterable {
  case pending = 1
  case scanned = 2
  case confirmed = 3
  case denied = 4
  case expired = 5
  case cancelled = 6
  case consumed = 7

  /// Nothing but time and the initiating device can still change it: the person has not decided.
  package var isUndecided: Bool { self == .pending || self == .scanned }

  /// Nothing changes it any more.
  package var isFinal: Bool {
    switch self {
    case .pending, .scanned, .confirmed: false
    case .denied, .expired, .cancelled, .consumed: true
    }
  }
}
