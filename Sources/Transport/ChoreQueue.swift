/// Where work waits that takes long, so that many who need such do not hold up those who need little.
package protocol ChoreQueue: AnyObject {
  /// Does `chore` at once, or when there is time for it.
  func soon(_ chore: @escaping () -> Void)
}
