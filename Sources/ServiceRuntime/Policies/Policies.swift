package import LatchkeyModel

/// What the operator decided about apps, actions and networks: one document for all services, which read it as it
/// changes.
package struct Policies: Sendable, Equatable {
  /// An action that may need a sign-in.
  package struct Gate: Sendable, Equatable {
    package var action: String
    package var needsLogin: Bool
    /// Names the localised text that asks for the sign-in.
    package var promptKey: String
    /// Nil for every application.
    package var client: ClientID?
  }

  /// Which versions of an application are too old.
  package struct Update: Sendable, Equatable {
    /// Nil for every application that has no rule of its own.
    package var client: ClientID?
    package var minimum: AppVersion?
    package var recommended: AppVersion?
    package var url: String
    package var changelog: String
    /// The first view that may offer the update; empty for any.
    package var view: String
  }

  /// The app that brings a person to a network that will do.
  package struct Companion: Sendable, Equatable {
    package var schemeURL: String
    package var downloadURL: String
  }

  package var version: Int64
  package var gates: [Gate]
  package var updates: [Update]
  /// Empty permits every network.
  package var permittedNetworks: [NetworkPrefix]
  package var companion: Companion?

  /// What holds until the operator decides otherwise. A document of the operator's begins at version 2.
  package static let builtIn = Policies(
    version: 1,
    gates: ["favourite", "comment", "buy", "order"].map { gate($0, needsLogin: true) }
      + ["share", "feedback", "add_to_cart"].map { gate($0, needsLogin: false) },
    updates: [],
    permittedNetworks: [],
    companion: nil
  )

  private static func gate(_ action: String, needsLogin: Bool) -> Gate {
    Gate(action: action, needsLogin: needsLogin, promptKey: needsLogin ? "gate.\(action)" : "", client: nil)
  }

  /// The gates of an application: its own stand before those for all.
  package func gates(of client: ClientID) -> [Gate] {
    let own = gates.filter { $0.client == client }
    return own + gates.filter { gate in gate.client == nil && !own.contains { $0.action == gate.action } }
  }

  package func update(of client: ClientID?) -> Update? {
    updates.first { $0.client != nil && $0.client == client } ?? updates.first { $0.client == nil }
  }

  package func permits(_ address: String) -> Bool {
    permittedNetworks.isEmpty || permittedNetworks.contains { $0.contains(address) }
  }
}
