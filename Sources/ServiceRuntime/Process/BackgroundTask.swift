/// Work that a service does beside its calls, from start to shutdown, when it is cancelled.
///
/// A task that returns is done; one that throws ends the process, because the service is no longer whole.
package struct BackgroundTask: Sendable {
  package let name: String
  package let run: @Sendable () async throws -> Void

  package init(_ name: String, run: @escaping @Sendable () async throws -> Void) {
    self.name = name
    self.run = run
  }
}
