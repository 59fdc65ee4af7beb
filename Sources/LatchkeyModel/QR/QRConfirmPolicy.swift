/// What an installation asks of the person who confirms.
package struct QRConfirmPolicy: Sendable, Equatable {
  /// The oldest proof of identity that may confirm; nil accepts any (S11).
  package var maximumAuthenticationAge: Duration?

  package init(maximumAuthenticationAge: Duration? = nil) {
    self.maximumAuthenticationAge = maximumAuthenticationAge
  }

  package func needsReauthentication(_ confirmer: QRConfirmer, at now: Timestamp) -> Bool {
    guard let maximumAuthenticationAge else { return false }
    guard let authenticated = confirmer.authenticated else { return true }
    return now - authenticated > maximumAuthenticationAge
  }
}
