/// How many instances a service has, each of which grants its part of a rate: together they grant what the rate allows.
package struct InstanceCount: Sendable {
  package static let one = InstanceCount { 1 }

  private let count: @Sendable () -> Int

  /// - Parameter count: of this instance and the others; below 1 counts as 1.
  package init(_ count: @escaping @Sendable () -> Int) {
    self.count = count
  }

  /// Those that live now; one where there is no membership.
  package init(_ membership: Membership?) {
    self = membership.map { membership in InstanceCount { membership.count } } ?? .one
  }

  package var current: Int { max(1, count()) }

  /// This instance's part of `count` events, rounded up, and not less than a few: whoever comes to one instance alone can
  /// still make a mistake.
  func part(of count: Int) -> Int {
    let instances = current
    return max((count + instances - 1) / instances, min(count, Limits.smallestPart))
  }
}
