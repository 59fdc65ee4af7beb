/// What a caller may say about one call.
package struct CallOptions: Sendable {
  package var metadata: Metadata
  /// How long the call may take in all; nil uses the channel's default.
  package var timeout: Duration?
  /// Wait for a connection while there is none, instead of failing at once with `UNAVAILABLE`.
  package var waitForReady: Bool
  /// The server may act twice on this call without harm: it is retried also when the connection broke after the
  /// request was sent, and nobody knows what became of it.
  package var isIdempotent: Bool
  /// Compress the requests that are worth it. The server must know how to expand them, or the call fails with
  /// `UNIMPLEMENTED`. Responses may come compressed in any case.
  package var compression: MessageCoding
  /// Where to keep the metadata that the server sends.
  package var responseMetadata: ResponseMetadata?

  package init(
    metadata: Metadata = Metadata(),
    timeout: Duration? = nil,
    waitForReady: Bool = false,
    isIdempotent: Bool = false,
    compression: MessageCoding = .identity,
    responseMetadata: ResponseMetadata? = nil
  ) {
    self.metadata = metadata
    self.timeout = timeout
    self.waitForReady = waitForReady
    self.isIdempotent = isIdempotent
    self.compression = compression
    self.responseMetadata = responseMetadata
  }
}
