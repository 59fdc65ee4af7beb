/// What happens on a client's session as a whole. Called on its event loop.
package protocol HTTP2ClientSessionDelegate: AnyObject {
  /// The peer's SETTINGS arrived (`acknowledged` false), or its acknowledgement of ours.
  func session(_ session: HTTP2ClientSession, receivedSettings acknowledged: Bool)

  /// A PING (`acknowledged` false; the answer is sent by itself), or the answer to ours.
  func session(_ session: HTTP2ClientSession, receivedPing payload: UInt64, acknowledged: Bool)

  /// The peer starts no further streams, and has seen ours up to `lastStreamID`.
  func session(_ session: HTTP2ClientSession, receivedGoAway code: HTTP2ErrorCode, lastStreamID: Int32, debug: [UInt8])
}
