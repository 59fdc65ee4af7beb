/// The bounds of this module, each with its reason.
package enum Limits {
  /// The longest JSON document that is parsed: a key set of a hundred keys has 20 KiB, a token's claims under 2 KiB.
  package static let bytes = 256 * 1024
  /// Nesting of JSON: a token has three levels. The parser recurses, so the stack is bounded by this.
  package static let depth = 32
}
