import JSON
import LatchkeyModel

/// What a one-time code does. One for one thing does nothing else.
package enum CodePurpose: String, Sendable, CaseIterable {
  /// Signs in, or shows that an address is somebody's.
  case signIn = "sign_in"
  /// Sets a new password.
  case recovery
}

/// A one-time code on its way to the person who asked for it.
package struct CodeMessage: Sendable {
  package let identifier: AccountIdentifier
  package let code: RedactedSecret
  package let locale: LanguageTag?
  package let lifetime: Duration
  /// What the code is for.
  package var purpose = CodePurpose.signIn

  /// What a gateway needs to know to send it.
  var json: JSONValue {
    [
      "kind": .string(identifier.kind.name),
      "to": .string(identifier.canonical),
      "code": .string(String(decoding: code.exposed, as: UTF8.self)),
      "locale": .string(locale?.description ?? ""),
      "expires_in": .integer(lifetime.secondsRoundedUp),
      "purpose": .string(purpose.rawValue),
    ]
  }
}
