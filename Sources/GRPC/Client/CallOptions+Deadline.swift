extension CallOptions {
  /// The options for a call made on behalf of an inbound one: it ends no later than the caller stops waiting.
  ///
  /// - Parameter reserve: time kept back for the inbound call's own work after this one.
  package func within(
    _ context: ServerContext,
    reserve: Duration = .zero,
    now: ContinuousClock.Instant = .now
  ) -> CallOptions {
    guard let deadline = context.deadline else { return self }
    var options = self
    let remaining = max(.zero, now.duration(to: deadline) - reserve)
    options.timeout = min(timeout ?? remaining, remaining)
    return options
  }
}
