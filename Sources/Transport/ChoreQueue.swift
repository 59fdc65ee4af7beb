package import NIOCore

/// Where work waits that takes long, so that many who need such do not hold up those who need little.
package protocol ChoreQueue: AnyObject {
  /// Does `chore` at once, or when there is time for it.
  func soon(_ chore: @escaping () -> Void)

  /// Does `chore` once, when `delay` has passed and there is time for it. Answers what calls it off.
  func after(_ delay: TimeAmount, _ chore: @escaping () -> Void) -> () -> Void
}
