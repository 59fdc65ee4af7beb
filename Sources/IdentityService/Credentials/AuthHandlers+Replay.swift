import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import NIOCore

extension AuthHandlers {
  /// What the same request would have again; nil without an `idempotency-key`.
  ///
  /// - Parameter method: keeps one method's keys apart from another's.
  func replay(
    _ method: String,
    _ request: some RPCMessage,
    _ context: ServerContext
  ) throws(RPCError) -> SignIn.Replay? {
    guard let key = context.firstValue("idempotency-key") else { return nil }
    _ = try RequestFields.foreignID(key, "idempotency-key")
    // The whole request, credential included: who does not know it gets nobody's session by a key that leaked. Whoever
    // asks for what was answered counts a try before: the credential may be guessed.
    let message = Array("\(method) \(key)".utf8) + [0] + (try request.encoded())
    return SignIn.Replay(
      key: HMACSHA256.authenticate(message, key: admission.replayKey.exposed),
      expiry: clock.now() + Limits.signInReplay
    )
  }
}

extension RPCError {
  /// Whether a code was looked at that was not the one, or was spent: its try was counted before.
  var isOfCountedCode: Bool { details.reason == "CODE_VOID" || details.reason == "CODE_INVALID" }
}

extension RPCMessage {
  func encoded() throws(RPCError) -> [UInt8] {
    var bytes = ByteBuffer()
    try encode(into: &bytes)
    return Array(bytes.readableBytesView)
  }
}
