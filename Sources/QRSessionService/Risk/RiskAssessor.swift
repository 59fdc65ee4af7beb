import Callers
import GRPC
import LatchkeyModel
import ServiceRuntime

/// Judges from where a code is confirmed (S10, R35): by the two addresses as the service sees them, by where a table of
/// places has their networks, and by whether the phone hears the screen.
struct RiskAssessor: Sendable {
  let policy: QRRiskPolicy
  let checkCode: QRSettings.CheckCodePolicy
  let farKilometres: Int
  let places: GeoFile?

  init(_ settings: QRSettings, places: GeoFile?) {
    policy = settings.risk
    checkCode = settings.checkCode
    farKilometres = settings.farKilometres
    self.places = places
  }

  func assess(_ request: QRSessionRequest, from peer: Peer, beacon: BeaconEvidence) -> AssessedRisk {
    let initiator = NetworkAddress(request.initiator.address)
    let confirmer = NetworkAddress(peer.address)
    var (distance, signals) = compare(initiator, confirmer)
    switch beacon {
    case .heard:
      // Radio reaches some ten metres: the networks of a phone on its operator's and a screen on a wire say less.
      (distance, signals) = (.nearby, [])
    case .wrong: signals.append(.wrongBeacon)
    case .none: signals.append(.noBeacon)
    }
    let judged = signals.map { signal in
      (signal, policy.action(for: signal, purpose: request.purpose, client: request.clientID))
    }
    let verdict = judged.map(\.1).max() ?? .allow
    return AssessedRisk(
      network: initiator?.coarse ?? "",
      distance: distance,
      signals: judged.filter { $0.1 > .allow }.sorted { $0.1 > $1.1 }.map(\.0),
      verdict: verdict,
      requirements: requirements(verdict, distance)
    )
  }

  /// Whether a scanner of this code may come to be asked for the screen's digits, which the screen then has to show.
  func mayNeedCheckCode(_ request: QRSessionRequest) -> Bool {
    if checkCode != .never { return true }
    guard policy.stepUp != .reauthentication else { return false }
    return QRSignal.allCases.contains {
      policy.action(for: $0, purpose: request.purpose, client: request.clientID) == .stepUp
    }
  }

  private func requirements(_ verdict: QRRiskAction, _ distance: AssessedRisk.Distance) -> QRRequirements {
    let isStepUp = verdict == .stepUp
    let byDefault =
      switch checkCode {
      case .never: false
      case .onRisk: distance != .sameNetwork && distance != .nearby
      case .always: true
      }
    return QRRequirements(
      checkCode: byDefault || (isStepUp && policy.stepUp != .reauthentication),
      reauthentication: isStepUp && policy.stepUp != .checkCode,
      isDenied: verdict == .deny
    )
  }

  private func compare(
    _ initiator: NetworkAddress?,
    _ confirmer: NetworkAddress?
  ) -> (AssessedRisk.Distance, [QRSignal]) {
    guard let initiator, let confirmer else { return (.unknown, [.unknownNetwork]) }
    if initiator.isSameNetwork(as: confirmer) { return (.sameNetwork, []) }
    guard let places else { return (.unknown, [.differentNetwork]) }
    guard let here = places.place(of: initiator), let there = places.place(of: confirmer) else {
      return (.unknown, [.differentNetwork, .unknownPlace])
    }
    let kilometres = here.kilometres(to: there)
    // To the next ten: the places are not known any better, and the phone learns no more of the screen's.
    let coarse = Int((kilometres / 10).rounded(.up)) * 10
    return kilometres > Double(farKilometres)
      ? (.far(coarse), [.far, .differentNetwork]) : (.near(coarse), [.differentNetwork])
  }
}
