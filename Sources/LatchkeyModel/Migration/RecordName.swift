/// Where a record stands among its subject's records.
package struct RecordName: Sendable, Hashable {
  package let collection: CollectionName
  package let key: RecordKey

  package init(collection: CollectionName, key: RecordKey) {
    self.collection = collection
    self.key = key
  }
}
