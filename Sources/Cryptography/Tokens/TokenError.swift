import LatchkeyModel

/// Why a token was refused: for logs and for choosing a status, never shown to the client in detail.
package enum TokenError: Error, Sendable, Equatable {
  /// Not three parts of base64url JSON, or too long.
  case malformed
  /// A header that asks for something we do not do (R5, R6): another algorithm, a key of its own, `crit`.
  case unacceptableHeader(String)
  /// No configured key has this `kid` (R6).
  case unknownKey(String)
  case badSignature
  /// Its subject is of this cell, and another one's are accepted. Said before the signature is known to hold, where no key
  /// is there to tell.
  case otherCell(Cell)
  /// Another kind of token than the one that is accepted here (R8).
  case wrongType
  /// A claim that must be there is missing or of the wrong form.
  case badClaim(String)
  case wrongIssuer
  case wrongAudience
  case expired
  case notYetValid
}
