/// A change that an account's owner is told of. What is sent to each address bears it, so that a message that arrives twice
/// is recognised.
package struct NoticeID: OpaqueID {
  package let value: OpaqueIDValue

  package init(value: OpaqueIDValue) {
    self.value = value
  }
}
