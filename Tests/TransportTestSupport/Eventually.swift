struct NeverHappened: Error {
  /// Where it was waited for.
  let line: Int
}

/// Waits until `condition` holds, for a minute at most: long enough for a machine that is busy with other tests.
package func eventually(line: Int = #line, _ condition: () -> Bool) async throws {
  let end = ContinuousClock.now + .seconds(60)
  while !condition() {
    guard ContinuousClock.now < end else { throw NeverHappened(line: line) }
    try await Task.sleep(for: .milliseconds(5))
  }
}
