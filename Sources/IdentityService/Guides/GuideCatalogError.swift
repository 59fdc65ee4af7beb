/// Why a document of guides cannot be used.
package struct GuideCatalogError: Error, Equatable, CustomStringConvertible {
  package let description: String

  init(_ description: String) {
    self.description = description
  }
}
