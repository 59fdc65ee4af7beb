import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import TransportClient

/// The calls of a sign-in.
enum LoadSteps {
  /// A code that is shown, and what collects it.
  struct Code: Sendable {
    var deviceCode: String
    var verifier: String
    var payload: String
    var checkCode: String
    var expires: ContinuousClock.Instant
    var interval: Duration
    var nextPoll: ContinuousClock.Instant
  }

  static let callTimeout: Duration = .seconds(20)
  private static let longPollMilliseconds: Int32 = 25_000

  static func issue(_ channel: ClientChannel, clientID: String) async throws(RPCError) -> Code {
    let verifier = Base64URL.encode(SecureRandom.bytes(32))
    let request = QRV1.IssueSessionRequest(
      clientID: clientID,
      purpose: .login,
      codeChallenge: Base64URL.encode(SHA256Hash.hash(Array(verifier.utf8))),
      codeChallengeMethod: "S256",
      initiator: QRV1.Initiator(label: "load test", platform: "load", app: "latchkey")
    )
    let answer = try await QRV1.QrSessionServiceClient(channel: channel)
      .issueSession(request, options: CallOptions(timeout: callTimeout))
    return Code(
      deviceCode: answer.deviceCode,
      verifier: verifier,
      payload: answer.qrPayload,
      checkCode: answer.checkCode,
      expires: .now + .seconds(answer.expiresIn),
      interval: .seconds(answer.interval),
      nextPoll: .now
    )
  }

  /// Scans as the account of the token. Returns the confirmation to send.
  static func scan(
    _ code: Code,
    _ service: QRV1.QrSessionServiceClient,
    _ token: String
  ) async throws(RPCError) -> QRV1.ConfirmSessionRequest {
    let scan = try await service.scanSession(
      QRV1.ScanSessionRequest(code: .qrPayload(code.payload)), options: phone(token))
    return QRV1.ConfirmSessionRequest(
      confirmTicket: scan.confirmTicket, checkCode: scan.needsCheckCode ? code.checkCode : "")
  }

  static func confirm(
    _ request: QRV1.ConfirmSessionRequest,
    _ service: QRV1.QrSessionServiceClient,
    _ token: String
  ) async throws(RPCError) {
    _ = try await service.confirmSession(request, options: phone(token))
  }

  private static func phone(_ token: String) -> CallOptions {
    CallOptions(metadata: ["authorization": "Bearer \(token)"], timeout: callTimeout)
  }

  /// The session that the confirmed code was handed over as. A confirmed code is never throttled.
  static func redeem(_ service: QRV1.QrSessionServiceClient, _ code: Code) async throws(RPCError) -> String {
    let request = QRV1.PollSessionRequest(deviceCode: code.deviceCode, codeVerifier: code.verifier)
    let answer = try await service.pollSession(request, options: CallOptions(timeout: callTimeout))
    guard let tokens = answer.tokens else { throw noTokens(answer.state) }
    return tokens.sid
  }

  /// Waits for the confirmation as the mode says, and redeems.
  static func result(
    _ service: QRV1.QrSessionServiceClient,
    _ mode: LoadPlan.Mode,
    _ code: Code
  ) async -> Result<String, RPCError> {
    let options = CallOptions(timeout: .seconds(60))
    do throws(RPCError) {
      guard mode == .watch else {
        // Version 2 is the scan: the answer waits for what comes after it.
        let request = QRV1.PollSessionRequest(
          deviceCode: code.deviceCode, codeVerifier: code.verifier, lastVersion: 2, waitMs: longPollMilliseconds)
        let answer = try await service.pollSession(request, options: options)
        guard let tokens = answer.tokens else { throw noTokens(answer.state) }
        return .success(tokens.sid)
      }
      let request = QRV1.WatchSessionRequest(deviceCode: code.deviceCode, codeVerifier: code.verifier)
      let sid = try await service.watchSession(request, options: options) { answers throws(RPCError) -> String in
        for try await answer in answers {
          if let tokens = answer.tokens { return tokens.sid }
        }
        throw RPCError(.dataLoss, "the watch ended without tokens")
      }
      return .success(sid)
    } catch {
      return .failure(error)
    }
  }

  private static func noTokens(_ state: QRV1.SessionState) -> RPCError {
    RPCError(.dataLoss, "no tokens for a confirmed code: \(state)")
  }
}
