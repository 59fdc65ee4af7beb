/// Why an account did not take a guest's record.
package enum RefusalReason: String, Sendable, CaseIterable {
  /// The account already holds as many records of the collection as it may.
  case noRoom = "no_room"
  /// The sum of the two numbers is larger than a number can be.
  case overflow
}
