/// What is wrong with the policy document: one line for the operator.
package struct PolicyError: Error, Sendable, CustomStringConvertible {
  package let description: String

  init(_ description: String) {
    self.description = description
  }
}
