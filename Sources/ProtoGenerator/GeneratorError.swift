/// What is wrong with the input, in words for whoever runs the generator.
package struct GeneratorError: Error, Equatable, CustomStringConvertible {
  package let description: String

  package init(_ description: String) {
    self.description = description
  }
}
