import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import QRCode
import TransportServer

/// What the sign-in screen's script asks, as JSON: the same sessions and limits as the RPCs, for one registered client.
struct ScreenCalls: Sendable {
  let api: QRSessionAPI
  let client: ClientID

  func issue(_ request: PageRequest) async -> PageResponse {
    await answer(request) { (body, context) async throws(RPCError) in
      let wanted = QRV1.IssueSessionRequest(
        clientID: client.description,
        purpose: .login,
        codeChallenge: body["code_challenge"]?.string ?? "",
        codeChallengeMethod: "S256",
        initiator: QRV1.Initiator(label: "Web page", platform: "web", app: client.description),
        supersedes: body["supersedes"]?.string ?? ""
      )
      let issued = try await api.issueSession(wanted, context: context)
      return [
        "device_code": .string(issued.deviceCode),
        "user_code": .string(issued.userCode),
        "check_code": .string(issued.checkCode),
        "expires_in": .integer(issued.expiresIn),
        "qr_payload": .string(issued.qrPayload),
        "modules": .array(try modules(issued.qrPayload).map { .string($0) }),
      ]
    }
  }

  func poll(_ request: PageRequest) async -> PageResponse {
    await answer(request) { (body, context) async throws(RPCError) in
      let poll = QRV1.PollSessionRequest(
        deviceCode: body["device_code"]?.string ?? "",
        codeVerifier: body["code_verifier"]?.string ?? "",
        lastVersion: body["last_version"]?.integer ?? 0,
        waitMs: Int32(clamping: body["wait_ms"]?.integer ?? 0)
      )
      let polled: QRV1.PollSessionResponse
      do throws(RPCError) {
        polled = try await api.pollSession(poll, context: context)
      } catch {
        return try Self.ended(error)
      }
      var members: [JSONValue.Member] = [
        .init("state", .string(Self.name(polled.state))),
        .init("version", .integer(polled.version)),
        .init("scanner_mask", .string(polled.scannerMask)),
      ]
      if let tokens = polled.tokens {
        members += [
          .init("name", .string(polled.profile?.name ?? "")),
          .init(
            "tokens",
            [
              "access_token": .string(tokens.accessToken),
              "token_type": .string(tokens.tokenType),
              "expires_in": .integer(tokens.expiresIn),
              "refresh_token": .string(tokens.refreshToken),
              "scope": .string(tokens.scope),
            ]
          ),
        ]
      }
      return .object(members)
    }
  }

  func cancel(_ request: PageRequest) async -> PageResponse {
    await answer(request) { (body, context) async throws(RPCError) in
      let cancel = QRV1.CancelSessionRequest(deviceCode: body["device_code"]?.string ?? "")
      _ = try await api.cancelSession(cancel, context: context)
      return ["state": "cancelled"]
    }
  }

  // MARK: -

  private func answer(
    _ request: PageRequest,
    _ body: (JSONValue, ServerContext) async throws(RPCError) -> JSONValue
  ) async -> PageResponse {
    // A page of another origin can send forms and texts here, but JSON only after asking us, and we do not agree.
    guard request.header("content-type") == "application/json",
      ["same-origin", nil].contains(request.header("sec-fetch-site")),
      let json = try? JSONValue(parsing: request.body), json.members != nil
    else { return Self.response(400, ["message": "a JSON object from this page is expected"]) }
    let context = ServerContext(
      method: RPCMethod(path: request.path, kind: .unary),
      peer: Peer(address: request.peerAddress, port: 0)
    )
    do throws(RPCError) {
      return Self.response(200, try await body(json, context))
    } catch {
      var members: [JSONValue.Member] = [.init("message", .string(error.message))]
      if let reason = error.details.reason { members.append(.init("reason", .string(reason))) }
      if let wait = error.details.retryAfter { members.append(.init("retry_after", .integer(wait.secondsRoundedUp))) }
      return Self.response(Self.status(error.code), .object(members))
    }
  }

  /// A session that ended is a state to the page; anything else stays an error.
  private static func ended(_ error: RPCError) throws(RPCError) -> JSONValue {
    switch error {
    case .accessDenied: ["state": "denied"]
    case .expired, .unknownDeviceCode: ["state": "expired"]
    case .cancelled, .alreadyUsed: ["state": "cancelled"]
    default: throw error
    }
  }

  private static func name(_ state: QRV1.SessionState) -> String {
    switch state {
    case .pending: "pending"
    case .scanned: "scanned"
    case .confirmed: "confirmed"
    case .consumed: "consumed"
    default: "unknown"
    }
  }

  private static func status(_ code: StatusCode) -> Int {
    switch code {
    case .resourceExhausted: 429
    case .permissionDenied: 403
    case .unavailable, .deadlineExceeded, .cancelled, .aborted: 503
    case .internal, .unknown: 500
    default: 400
    }
  }

  private static func response(_ status: Int, _ json: JSONValue) -> PageResponse {
    PageResponse(
      status: status,
      headers: [
        ("content-type", "application/json"), ("cache-control", "no-store"), ("x-content-type-options", "nosniff"),
      ],
      body: json.encoded()
    )
  }

  /// The symbol's rows from the top: 1 for dark, 0 for light.
  private func modules(_ payload: String) throws(RPCError) -> [String] {
    guard let matrix = try? QRMatrix(encoding: payload) else {
      throw RPCError(.internal, "the code could not be drawn")
    }
    return (0..<matrix.size).map { row in
      String((0..<matrix.size).map { matrix.isDark(row: row, column: $0) ? "1" : "0" })
    }
  }
}
