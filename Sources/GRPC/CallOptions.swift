/// What a caller may say about one call.
package struct CallOptions: Sendable {
  package var metadata: Metadata
  /// How long the call may take in all; nil uses the channel's default.
  package var timeout: Duration?
  /// Wait for a connection while there is none, instead of failing at once with `UNAVAILABLE`.
  package var waitForReady: Bool

  package init(metadata: Metadata = Metadata(), timeout: Duration? = nil, waitForReady: Bool = false) {
    self.metadata = metadata
    self.timeout = timeout
    self.waitForReady = waitForReady
  }
}
