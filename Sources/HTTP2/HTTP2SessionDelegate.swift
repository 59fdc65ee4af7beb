/// What happens on a session as a whole. Called on its event loop.
package protocol HTTP2SessionDelegate: AnyObject {
  /// The peer opened a stream: who handles it? On a server only.
  func session(_ session: HTTP2Session, opened stream: HTTP2Stream) -> any HTTP2StreamHandler

  /// The peer's SETTINGS arrived (`acknowledged` false), or its acknowledgement of ours.
  func session(_ session: HTTP2Session, receivedSettings acknowledged: Bool)

  /// A PING (`acknowledged` false; the answer is sent by itself), or the answer to ours.
  func session(_ session: HTTP2Session, receivedPing payload: UInt64, acknowledged: Bool)

  /// The peer starts no further streams, and has seen ours up to `lastStreamID`.
  func session(_ session: HTTP2Session, receivedGoAway code: HTTP2ErrorCode, lastStreamID: Int32, debug: [UInt8])
}
