/// The bounds of this module, each with its reason.
package enum Limits {
  /// The longest compact token that is looked at. Header lists are capped at 16 KiB, so a longer one cannot arrive.
  package static let tokenBytes = 8 * 1024

  /// How far the clocks of two services may disagree (R7: at most 60 s).
  package static let clockSkew: Duration = .seconds(60)

  /// Public keys that a key set may hold. Rotation needs two or three.
  package static let keysInSet = 100

  /// Bytes of the modulus of somebody else's RSA key: 2048 to 4096 bits.
  package static let rsaModulusBytes = 256...512

  /// Operation contexts that one key or cipher keeps for reuse: more than the threads that compute at once.
  package static let idleContexts = 16

  /// Passwords longer than this are refused before they are hashed: Argon2 reads all of it.
  package static let passwordBytes = 1024
  /// Password hashes that may wait for a thread, and for how long by what the last ones took: a caller is better served
  /// by an error than by an answer after its deadline, and people wait for no longer than this.
  package static let passwordQueue = 128
  package static let passwordWait: Duration = .seconds(4)
  /// Those that may wait in a line of their own, of sources that have far less waiting than another.
  static let workOfFew = 16
  /// How many times as much another source has waiting where it is its doing that there is too much to do.
  static let muchMore = 4
  /// Which part of a hash's time its caller needs afterwards, to write down what came of it: some milliseconds, and more
  /// when the machine has so much to do that hashes are refused.
  package static let partAfterWork = 4
  /// The most memory, in KiB, and the most passes that a stored hash may ask for, so that a tampered row cannot
  /// exhaust the machine.
  package static let argon2MemoryKiB: UInt32 = 256 * 1024
  package static let argon2Passes: UInt32 = 16
  package static let argon2Lanes: UInt32 = 8
  /// The shortest salt and hash that libargon2 takes (RFC 9106 section 3.1).
  static let argon2SaltBytes = 8
  static let argon2HashBytes = 4
  /// The longest PHC string: the parameters, a salt and a hash of 64 bytes at most.
  package static let phcBytes = 256

  /// The longest key file that is read.
  package static let keyFileBytes = 64 * 1024
}
