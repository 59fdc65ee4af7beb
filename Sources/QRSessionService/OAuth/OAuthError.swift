import GRPC
import JSON
import TransportServer

/// An error answer of an OAuth endpoint (RFC 6749 section 5.2, RFC 8628 section 3.5).
struct OAuthError: Error, Sendable, Equatable {
  enum Code: String, Sendable {
    case invalidRequest = "invalid_request"
    case invalidClient = "invalid_client"
    case invalidGrant = "invalid_grant"
    case invalidScope = "invalid_scope"
    case unauthorizedClient = "unauthorized_client"
    case unsupportedGrantType = "unsupported_grant_type"
    case authorizationPending = "authorization_pending"
    case slowDown = "slow_down"
    case accessDenied = "access_denied"
    case expiredToken = "expired_token"
    case temporarilyUnavailable = "temporarily_unavailable"
    case serverError = "server_error"
  }

  let code: Code
  let description: String
  var retryAfter: Duration?

  init(_ code: Code, _ description: String, retryAfter: Duration? = nil) {
    self.code = code
    self.description = description
    self.retryAfter = retryAfter
  }

  /// The same refusal in OAuth's words.
  init(_ error: RPCError) {
    let code: Code =
      switch (error.code, error.details.reason) {
      case (_, "slow_down"?): .slowDown
      case (_, "access_denied"?): .accessDenied
      case (_, "expired_token"?): .expiredToken
      case (_, "invalid_grant"?), (_, "OTHER_CELL"?), (.notFound, _): .invalidGrant
      case (_, "unauthorized_client"?): .invalidClient
      case (_, "INITIATOR_NOT_TRUSTED"?), (_, "UPGRADE_REQUIRED"?): .unauthorizedClient
      case (.invalidArgument, _):
        switch error.details.fieldViolations.first?.field {
        case "scope"?: .invalidScope
        case "client_id"?: .invalidClient
        default: .invalidRequest
        }
      case (.unavailable, _), (.resourceExhausted, _), (.deadlineExceeded, _), (.cancelled, _), (.aborted, _):
        .temporarilyUnavailable
      default: .serverError
      }
    self.init(code, error.message, retryAfter: error.details.retryAfter)
  }

  var response: PageResponse {
    let status =
      switch code {
      case .invalidClient: 401
      case .temporarilyUnavailable: 503
      case .serverError: 500
      default: 400
      }
    var response = PageResponse(
      oauth: ["error": .string(code.rawValue), "error_description": .string(Self.shown(description))],
      status: status
    )
    if let retryAfter { response.headers.append(("retry-after", "\(retryAfter.secondsRoundedUp)")) }
    return response
  }

  /// The characters that RFC 6749 allows in `error_description`.
  private static func shown(_ text: String) -> String {
    String(
      decoding: text.utf8.map { byte in
        (0x20...0x7E).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
          ? byte : UInt8(ascii: "'")
      },
      as: UTF8.self
    )
  }
}

extension PageResponse {
  /// A JSON answer that nobody may keep (RFC 6749 section 5.1).
  init(oauth json: JSONValue, status: Int = 200) {
    self.init(
      status: status,
      headers: [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        ("pragma", "no-cache"),
        ("x-content-type-options", "nosniff"),
      ],
      body: json.encoded()
    )
  }
}
