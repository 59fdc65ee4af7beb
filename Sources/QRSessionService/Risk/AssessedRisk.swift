import LatchkeyModel

/// How near two devices seem to be, and what follows from it.
struct AssessedRisk: Sendable, Equatable {
  enum Distance: Sendable, Equatable {
    case unknown
    case sameNetwork
    /// The phone hears the screen.
    case nearby
    /// Kilometres between the places of their networks.
    case near(Int)
    case far(Int)
  }

  /// The initiating device's, with the device left out; empty when it is not known.
  var network: String
  var distance: Distance
  /// Those worth a warning, the gravest first.
  var signals: [QRSignal]
  var verdict: QRRiskAction
  var requirements: QRRequirements
}
