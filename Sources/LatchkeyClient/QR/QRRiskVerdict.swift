/// What the service makes of where a code comes from.
public enum QRRiskVerdict: String, Sendable, CaseIterable {
  case allow
  /// Show the signals before asking.
  case warn
  /// More than a yes is needed: see ``QRScan/needsCheckCode`` and ``QRScan/needsReauthentication``.
  case stepUp = "step-up"
}
