import Cryptography
import JSON
import LatchkeyModel
import Storage
import Transfers

/// Hands codes to a web address of the deployment, such as a gateway for text messages.
///
/// The body is JSON. `latchkey-signature` is `v1=` and the hexadecimal HMAC-SHA256, under the shared secret, of the
/// `latchkey-timestamp` (seconds since the epoch), a full stop and the body: whoever takes the call on checks both.
/// `idempotency-key` is the same for every try to deliver one code or notice.
package struct WebhookCodeSink: CodeSink {
  package typealias Send = @Sendable (HTTPRequest) async throws(TransferError) -> HTTPResponse

  private let address: String
  private let secret: RedactedSecret
  private let authoritiesFile: String?
  private let clock: any WallClock
  private let random: RandomSource
  private let send: Send

  package init(
    _ address: String, secret: RedactedSecret, authoritiesFile: String?, clock: any WallClock, random: RandomSource,
    send: @escaping Send
  ) {
    self.address = address
    self.secret = secret
    self.authoritiesFile = authoritiesFile
    self.clock = clock
    self.random = random
    self.send = send
  }

  package func deliver(_ message: CodeMessage) async throws(CodeDeliveryError) {
    try await post(message.json, key: Base64URL.encode(random.bytes(16)))
  }

  package func deliver(_ notice: OwnerNotice) async throws(CodeDeliveryError) {
    try await post(notice.json, key: notice.key)
  }

  private func post(_ json: JSONValue, key: String) async throws(CodeDeliveryError) {
    let body = json.encoded()
    try await DeliveryRetry.run { () throws(TransferError) in
      let time = "\(clock.now().secondsSinceEpoch)"
      let answer = try await send(
        HTTPRequest(
          address,
          body: body,
          fields: [
            ("Content-Type", "application/json"),
            ("latchkey-timestamp", time),
            ("latchkey-signature", "v1=\(signature(time, body))"),
            ("idempotency-key", key),
          ],
          authoritiesFile: authoritiesFile
        ))
      guard answer.isSuccess else {
        // Whom it does not let in it lets nobody in; any other answer may be about this message.
        throw TransferError(
          "the webhook answers \(answer.status)", isRetryable: answer.isRetryable,
          fault: [401, 403, 407].contains(answer.status) ? .server : .content)
      }
    }
  }

  private func signature(_ time: String, _ body: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    let code = HMACSHA256.authenticate(Array("\(time).".utf8) + body, key: secret.exposed)
    return String(decoding: code.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }
}
