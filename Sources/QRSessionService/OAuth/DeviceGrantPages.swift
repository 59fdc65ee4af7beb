import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import TransportServer

/// The device authorization grant (RFC 8628) for stock OAuth clients, over the same sessions as the RPCs.
///
/// A client sends a `code_challenge` and proves itself by its `code_verifier`, as callers of the RPCs must (S28). One
/// that knows nothing of PKCE is refused, unless the installation lists it (`oauth.clientsWithoutPkce`): then it is known
/// by its device code, as RFC 8628 has it, which serves as its verifier.
///
/// A stock client has no device of the person's own, so it gets no hold of the account: `account` is left out of what it
/// asks for, and the answer's `scope` says so (RFC 6749 section 3.3).
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
    let userAgent: String
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
    return Call(parameters: parameters, userAgent: request.header("user-agent") ?? "", context: context)
  }

  /// RFC 8628 section 3.1.
  private func authorize(_ call: Call) async throws -> JSONValue {
    let client = try call.required("client_id")
    var request = QRV1.IssueSessionRequest(
      clientID: client,
      purpose: .login,
      scope: Self.narrowed(call.parameters["scope"] ?? ""),
      codeChallenge: call.parameters["code_challenge"] ?? "",
      codeChallengeMethod: call.parameters["code_challenge_method"] ?? "",
      initiator: QRV1.Initiator(platform: Self.platform(call.userAgent))
    )
    let isPlain = request.codeChallenge.isEmpty && request.codeChallengeMethod.isEmpty
    if isPlain {
      try checkPlain(client)
      request.codeChallengeMethod = "S256"
    }
    let issued = try await api.issueSession(request, challengeIsDeviceCode: isPlain, context: call.context)
    var answer = [
      JSONValue.Member("device_code", .string(issued.deviceCode)),
      JSONValue.Member("user_code", .string(issued.userCode)),
      JSONValue.Member("verification_uri", .string(issued.verificationURI)),
      JSONValue.Member("verification_uri_complete", .string(issued.verificationURIComplete)),
      JSONValue.Member("expires_in", .integer(issued.expiresIn)),
      JSONValue.Member("interval", .integer(issued.interval)),
    ]
    // A phone on another network asks for them (S9); clients that know nothing of them pass them over.
    if !issued.checkCode.isEmpty { answer.append(JSONValue.Member("check_code", .string(issued.checkCode))) }
    return .object(answer)
  }

  /// Throws for a client that has to bring a challenge. One that is not registered is told that first.
  private func checkPlain(_ text: String) throws(OAuthError) {
    guard let client = ClientID(text), api.settings.clients?.contains(client) ?? true else {
      throw OAuthError(.invalidClient, "client_id is not registered")
    }
    guard api.settings.clientsWithoutPKCE.contains(client) else {
      throw OAuthError(
        .invalidRequest, "code_challenge is missing: PKCE with the method S256 is required (RFC 7636)")
    }
  }

  /// What is asked for, without what only a device of one's own gets. What is no scope stays, to be refused as such.
  private static func narrowed(_ text: String) -> String {
    guard let asked = Scope(text), asked.contains("account") else { return text }
    return asked.tokens.filter { $0 != "account" }.joined(separator: " ")
  }

  /// The system that a client says it runs on, of those that people know; empty for any other. A claim, like all that an
  /// initiator says.
  private static func platform(_ userAgent: String) -> String {
    let systems = [
      "Android", "iPhone", "iPad", "Apple TV", "Macintosh", "Windows", "Tizen", "Web0S", "Roku", "PlayStation", "Xbox",
      "CrOS", "Linux",
    ]
    return systems.first { userAgent.contains($0) } ?? ""
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
