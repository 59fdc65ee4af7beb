import LatchkeyModel

/// A one-time code on its way to the person who asked for it.
package struct CodeMessage: Sendable {
  package let identifier: AccountIdentifier
  package let code: RedactedSecret
  package let locale: LanguageTag?
  package let lifetime: Duration
}
