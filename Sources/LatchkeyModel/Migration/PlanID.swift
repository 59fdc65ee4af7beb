/// Names a plan: what a migration would do.
package struct PlanID: OpaqueID {
  package let value: OpaqueIDValue

  package init(value: OpaqueIDValue) {
    self.value = value
  }
}
