/// Why a guest's record was set aside instead of going into the account.
package enum ConflictReason: String, Sendable, CaseIterable {
  /// A person has to decide.
  case ask
  /// The account already holds as many records of the collection as it may.
  case noRoom = "no_room"
  /// The sum of the two numbers is larger than a number can be.
  case overflow
  /// No key of its own could be made for the record.
  case noKey = "no_key"
}
