/// What an installation makes of risk signals, for all codes or for those of a purpose or a client (S10, R35).
package struct QRRiskPolicy: Sendable, Equatable {
  /// What a step-up asks for.
  package enum StepUp: String, Sendable, CaseIterable {
    case checkCode
    case reauthentication
    case both
  }

  /// `[client@][purpose:]signal=action`, such as `far=deny`, `login:no_beacon=step-up` or `kiosk@login:far=allow`.
  package struct Rule: Sendable, Equatable {
    package let client: ClientID?
    package let purpose: QRPurpose?
    package let signal: QRSignal
    package let action: QRRiskAction

    /// Nil for anything that is no rule.
    package init?(_ text: String) {
      let sides = text.split(separator: "=", omittingEmptySubsequences: false)
      guard sides.count == 2, let action = QRRiskAction.allCases.first(where: { $0.name == sides[1] }) else {
        return nil
      }
      var rest = sides[0]
      var client: ClientID?
      if let at = rest.firstIndex(of: "@") {
        guard let named = ClientID(String(rest[..<at])) else { return nil }
        client = named
        rest = rest[rest.index(after: at)...]
      }
      var purpose: QRPurpose?
      if let colon = rest.firstIndex(of: ":") {
        guard let named = QRPurpose(name: String(rest[..<colon])) else { return nil }
        purpose = named
        rest = rest[rest.index(after: colon)...]
      }
      guard let signal = QRSignal(rawValue: String(rest)) else { return nil }
      self.client = client
      self.purpose = purpose
      self.signal = signal
      self.action = action
    }

    fileprivate func holds(_ signal: QRSignal, _ purpose: QRPurpose, _ client: ClientID) -> Bool {
      self.signal == signal && (self.purpose ?? purpose) == purpose && (self.client ?? client) == client
    }

    /// A client's rule goes before a purpose's, and either before one for all.
    fileprivate var weight: Int { (client == nil ? 0 : 2) + (purpose == nil ? 0 : 1) }
  }

  package var rules: [Rule]
  package var stepUp: StepUp

  package init(rules: [Rule] = [], stepUp: StepUp = .checkCode) {
    self.rules = rules
    self.stepUp = stepUp
  }

  /// Of the rules that fit, the most particular decides; of equals the last one.
  package func action(for signal: QRSignal, purpose: QRPurpose, client: ClientID) -> QRRiskAction {
    var chosen: Rule?
    for rule in rules where rule.holds(signal, purpose, client) && rule.weight >= (chosen?.weight ?? 0) {
      chosen = rule
    }
    return chosen?.action ?? Self.builtIn(signal, purpose)
  }

  /// Moving a whole account or guest, unlike a sign-in, cannot be undone by ending a session, so it asks for more
  /// (S20).
  private static func builtIn(_ signal: QRSignal, _ purpose: QRPurpose) -> QRRiskAction {
    switch (signal, purpose) {
    case (.differentNetwork, .transferGuest), (.unknownNetwork, .transferGuest), (.far, .transferGuest): .stepUp
    case (.differentNetwork, _), (.far, _), (.wrongBeacon, _): .warn
    case (.unknownNetwork, _), (.unknownPlace, _), (.noBeacon, _): .allow
    }
  }
}
