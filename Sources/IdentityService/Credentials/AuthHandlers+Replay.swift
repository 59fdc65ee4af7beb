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
    // The whole request, credential included: who does not know it gets nobody's session by a key that leaked.
    let message = Array("\(method) \(key)".utf8) + [0] + (try request.encoded())
    return SignIn.Replay(
      key: HMACSHA256.authenticate(message, key: admission.replayKey.exposed),
      expiry: clock.now() + Limits.signInReplay
    )
  }
}

extension RPCMessage {
  func encoded() throws(RPCError) -> [UInt8] {
    var bytes = ByteBuffer()
    try encode(into: &bytes)
    return Array(bytes.readableBytesView)
  }
}
