/// A signed-in device: one refresh-token family. Public within the owner's account; it is not a secret.
package struct SessionID: OpaqueID {
  package let value: OpaqueIDValue

  package init(value: OpaqueIDValue) {
    self.value = value
  }
}
