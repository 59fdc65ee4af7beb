/// A wish to move a guest's data into an account, from the sign-in that made it until the migration is done. Doubles as
/// the idempotency key of the migration it starts.
package struct MergeID: OpaqueID {
  package let value: OpaqueIDValue

  package init(value: OpaqueIDValue) {
    self.value = value
  }
}
