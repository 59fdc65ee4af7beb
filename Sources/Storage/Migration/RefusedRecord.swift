import LatchkeyModel

/// A guest's record that the account did not take, kept aside.
package struct RefusedRecord: Sendable, Equatable {
  package let name: RecordName
  package let content: RecordContent
  package let reason: RefusalReason

  package init(name: RecordName, content: RecordContent, reason: RefusalReason) {
    self.name = name
    self.content = content
    self.reason = reason
  }
}
