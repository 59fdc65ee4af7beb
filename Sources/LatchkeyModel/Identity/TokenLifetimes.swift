/// How long tokens hold. The defaults are those of the documentation; a deployment may shorten them.
package struct TokenLifetimes: Sendable, Equatable {
  package var access: Duration = .seconds(15 * 60)
  package var refreshIdle: Duration = .seconds(30 * 86_400)
  package var refreshAbsoluteGuest: Duration = .seconds(180 * 86_400)
  package var refreshAbsoluteAccount: Duration = .seconds(90 * 86_400)
  /// A session that a QR code began: shorter, because nobody typed anything on that device.
  package var refreshAbsoluteQR: Duration = .seconds(30 * 86_400)
  package var refreshParentGrace: Duration = .seconds(86_400)
  package var linkTicket: Duration = .seconds(5 * 60)
  package var challenge: Duration = .seconds(5 * 60)

  package init() {}

  package func family(isGuest: Bool, method: SignInMethod) -> RefreshFamily.Lifetimes {
    let absolute = isGuest ? refreshAbsoluteGuest : method == .qr ? refreshAbsoluteQR : refreshAbsoluteAccount
    return RefreshFamily.Lifetimes(
      idle: min(refreshIdle, absolute), absolute: absolute, parentGrace: refreshParentGrace)
  }
}
