/// Names a migration: one guest's records on their way into one account.
package struct MigrationID: OpaqueID {
  package let value: OpaqueIDValue

  package init(value: OpaqueIDValue) {
    self.value = value
  }
}
