/// One thing that a person made or did in an app.
package struct Record: Sendable, Equatable {
  package let name: RecordName
  package let content: RecordContent
  /// Grows with every write of this row, also when the row was deleted in between.
  package let revision: Int64

  package init(name: RecordName, content: RecordContent, revision: Int64) {
    self.name = name
    self.content = content
    self.revision = revision
  }

  /// Its place in a list that begins with the newest.
  package var position: RecordPosition { RecordPosition(updatedAt: content.updatedAt, key: name.key) }
}
