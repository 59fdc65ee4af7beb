/// What an installation asks of the person who confirms.
package struct QRConfirmPolicy: Sendable, Equatable {
  /// The oldest proof of identity that may confirm; nil accepts any (S11).
  package var maximumAuthenticationAge: Duration?
  /// The oldest one that still counts where the risk asks for a fresh one.
  package var stepUpAge: Duration

  package init(maximumAuthenticationAge: Duration? = nil, stepUpAge: Duration = .seconds(300)) {
    self.maximumAuthenticationAge = maximumAuthenticationAge
    self.stepUpAge = stepUpAge
  }

  /// Whether this person has to prove who they are before this purpose is confirmed: by the device key, or, unless the
  /// purpose needs its signature, by signing in again.
  package func needsReauthentication(
    _ confirmer: QRConfirmer,
    for purpose: QRPurpose,
    isStepUp: Bool = false,
    at now: Timestamp
  ) -> Bool {
    if purpose.needsSignature { return true }
    let ages = [maximumAuthenticationAge, isStepUp ? stepUpAge : nil].compactMap { $0 }
    guard let oldest = ages.min() else { return false }
    guard let authenticated = confirmer.authenticated else { return true }
    return now - authenticated > oldest
  }
}
