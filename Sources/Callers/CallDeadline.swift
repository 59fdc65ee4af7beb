/// When the call for which the current task works is over, and its answer worth nothing.
///
/// Set by the transport around a call's handler; nil for work that no caller waits for. Queues look at it to drop what
/// would come too late. Tasks that a handler starts inherit it: work that has to be done whatever became of the call
/// belongs in a detached one.
package enum CallDeadline {
  @TaskLocal package static var current: ContinuousClock.Instant?

  /// Does what has to be done whatever becomes of the call: in a task of its own, which knows neither the call's deadline
  /// nor its cancellation, and works in the name of the call's source all the same. None of the
  /// process's own queues refuses it since too much waits.
  package static func outliving<Value: Sendable, Failure: Error>(
    _ work: @escaping @Sendable () async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    let place = CallPlace.current.map { CallPlace(holder: $0.holder, isOwed: true) } ?? CallPlace(isOwed: true)
    let result = await Task.detached {
      await CallPlace.$current.withValue(place) { () async -> Result<Value, Failure> in
        do throws(Failure) {
          return .success(try await work())
        } catch {
          return .failure(error)
        }
      }
    }.value
    return try result.get()
  }
}
