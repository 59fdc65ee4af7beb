/// What a confirmation takes besides the person's yes.
package struct QRRequirements: Sendable, Equatable {
  /// The screen's two digits (S9).
  package var checkCode: Bool
  /// A recent proof of identity, or the device key's signature (S11).
  package var reauthentication: Bool
  /// Nothing helps: the risk is too high (S10).
  package var isDenied: Bool

  package init(checkCode: Bool = false, reauthentication: Bool = false, isDenied: Bool = false) {
    self.checkCode = checkCode
    self.reauthentication = reauthentication
    self.isDenied = isDenied
  }

  /// What either takes.
  func joined(with other: QRRequirements) -> QRRequirements {
    QRRequirements(
      checkCode: checkCode || other.checkCode,
      reauthentication: reauthentication || other.reauthentication,
      isDenied: isDenied || other.isDenied
    )
  }
}
