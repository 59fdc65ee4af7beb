/// Names a transfer to whoever offers it; the code itself is the secret.
package struct TransferID: OpaqueID {
  package let value: OpaqueIDValue

  package init(value: OpaqueIDValue) {
    self.value = value
  }
}
