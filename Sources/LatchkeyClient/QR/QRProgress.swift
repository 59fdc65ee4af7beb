/// Where a QR sign-in stands, as its initiating device sees it.
public enum QRProgress: Sendable, Equatable {
  case pending
  /// A phone has read the code; the mask tells the person at the screen whether it was theirs.
  case scanned(by: String)
  /// The person agreed, and nothing has been collected yet: only ``DeviceClient/watchQRCode(_:changed:)`` tells this.
  case agreed(by: String)
  /// Confirmed, and the tokens are in the secret store.
  case signedIn(SignIn)
  /// The action was agreed to; nobody was signed in.
  case confirmed(QRConfirmation)
  case denied
  case expired
  case cancelled
  /// Somebody has collected these tokens before, longer ago than a lost answer explains.
  case consumed
}
