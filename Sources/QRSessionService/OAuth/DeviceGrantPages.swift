import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Transport

/// The device authorization grant (RFC 8628) for stock OAuth clients, over the same sessions as the RPCs.
///
/// A client that sends a `code_challenge` proves itself by its `code_verifier`, as callers of the RPCs must. One that
/// knows nothing of PKCE proves itself by its device code, as RFC 8628 has it: the code then serves as its verifier.
struct DeviceGrantPages: Sendable {
  static let grantType = "urn:ietf:params:oauth:grant-type:device_code"

  let api: QRSessionAPI
  /// Where identity publishes the keys that tokens verify with.
  let jwksURI: String
  /// Refuses apps that are too old, of those that say which version they are: these endpoints are called by apps, as the
  /// RPCs are.
  let appVersions: AppVersionInterceptor

  var pages: [Page] {
    [
      Page("POST", "/oauth/device_authorization") { request in await answer { try await authorize($0) }(request) },
      Page("POST", "/oauth/token") { request in await answer { try await token($0) }(request) },
      Page("GET", "/.well-known/oauth-authorization-server") { _ in PageResponse(oauth: metadata) },
    ]
  }

  /// RFC 8414.
  var metadata: JSONValue {
    let base = api.settings.verificationBase.text
    return [
      "issuer": .string(base),
      "device_authorization_endpoint": .string(base + "/oauth/device_authorization"),
      "token_endpoint": .string(base + "/oauth/token"),
      "jwks_uri": .string(jwksURI),
      "grant_types_supported": [.string(Self.grantType)],
      "response_types_supported": [],
      "token_endpoint_auth_methods_supported": ["none"],
      "code_challenge_methods_supported": ["S256"],
    ]
  }

  private struct Call: Sendable {
    let parameters: FormParameters
    let context: ServerContext

    func required(_ name: String) throws(OAuthError) -> String {
      guard let value = parameters[name] else { throw OAuthError(.invalidRequest, "\(name) is missing") }
      return value
    }
  }

  private func answer(
    _ body: @escaping @Sendable (Call) async throws -> JSONValue
  ) -> @Sendable (PageRequest) async -> PageResponse {
    { request in
      do {
        return PageResponse(oauth: try await body(try call(request)))
      } catch let error as OAuthError {
        return error.response
      } catch let error as RPCError {
        return OAuthError(error).response
      } catch {
        return OAuthError(.serverError, "the request could not be carried out").response
      }
    }
  }

  private func call(_ request: PageRequest) throws -> Call {
    let type = request.header("content-type")?.split(separator: ";").first?.lowercased()
    guard type == "application/x-www-form-urlencoded", let parameters = FormParameters(request.body) else {
      throw OAuthError(.invalidRequest, "the body must be application/x-www-form-urlencoded, each parameter once")
    }
    guard request.header("authorization") == nil else {
      throw OAuthError(.invalidClient, "clients are public: client_id goes into the body")
    }
    var metadata = Metadata()
    let version = AppVersionInterceptor.field.description
    if let value = request.header(version) { metadata.add(version, value) }
    let context = ServerContext(
      method: RPCMethod(path: request.path, kind: .unary),
      metadata: metadata,
      peer: Peer(address: request.peerAddress, port: 0)
    )
    try appVersions.willHandle(context)
    return Call(parameters: parameters, context: context)
  }

  /// RFC 8628 section 3.1.
  private func authorize(_ call: Call) async throws -> JSONValue {
    var request = QRV1.IssueSessionRequest(
      clientID: try call.required("client_id"),
      purpose: .login,
      scope: call.parameters["scope"] ?? "",
      codeChallenge: call.parameters["code_challenge"] ?? "",
      codeChallengeMethod: call.parameters["code_challenge_method"] ?? ""
    )
    let provesItselfByCode = request.codeChallenge.isEmpty && request.codeChallengeMethod.isEmpty
    if provesItselfByCode { request.codeChallengeMethod = "S256" }
    let issued = try await api.issueSession(
      request,
      challengeIsDeviceCode: provesItselfByCode,
      context: call.context
    )
    return [
      "device_code": .string(issued.deviceCode),
      "user_code": .string(issued.userCode),
      "verification_uri": .string(issued.verificationURI),
      "verification_uri_complete": .string(issued.verificationURIComplete),
      "expires_in": .integer(issued.expiresIn),
      "interval": .integer(issued.interval),
    ]
  }

  /// RFC 8628 section 3.4.
  private func token(_ call: Call) async throws -> JSONValue {
    guard try call.required("grant_type") == Self.grantType else {
      throw OAuthError(.unsupportedGrantType, "only the device code grant is offered here")
    }
    let code = try call.required("device_code")
    guard let clientID = ClientID(try call.required("client_id")) else {
      throw OAuthError(.invalidClient, "client_id is not registered")
    }
    let request = QRV1.PollSessionRequest(
      deviceCode: code,
      codeVerifier: call.parameters["code_verifier"] ?? (PollSecret(text: code) == nil ? "" : code)
    )
    let polled = try await api.poll(request, by: clientID, context: call.context)
    guard let tokens = polled.tokens else {
      switch polled.state {
      case .pending, .scanned: throw OAuthError(.authorizationPending, "nobody has confirmed the code yet")
      default: throw OAuthError(.expiredToken, "the code was used")
      }
    }
    return [
      "access_token": .string(tokens.accessToken),
      "token_type": .string(tokens.tokenType),
      "expires_in": .integer(tokens.expiresIn),
      "refresh_token": .string(tokens.refreshToken),
      "scope": .string(tokens.scope),
    ]
  }
}
