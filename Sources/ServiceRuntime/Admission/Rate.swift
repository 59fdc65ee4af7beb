/// How often something may happen.
package struct Rate: Sendable, Equatable {
  /// All at once, if nothing came before.
  package let count: Int
  /// In which that many are earned back.
  package let window: Duration

  package init(_ count: Int, per window: Duration) {
    precondition(count > 0 && window > .zero, "a rate allows something")
    self.count = count
    self.window = window
  }
}
