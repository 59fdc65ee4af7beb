import LatchkeyModel

/// How many records a subject holds in a collection.
package struct CollectionCount: Sendable, Equatable {
  package let collection: CollectionName
  package let count: Int

  package init(collection: CollectionName, count: Int) {
    self.collection = collection
    self.count = count
  }
}
