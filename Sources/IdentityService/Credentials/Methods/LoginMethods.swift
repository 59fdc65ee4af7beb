import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Every way to sign in, by what a request presents. A method is one file beside this one, and its lines here.
struct LoginMethods: Sendable {
  let evidence: Evidence
  private let password: PasswordLoginMethod
  private let otp: OTPLoginMethod
  private let customSecret: CustomSecretLoginMethod
  private let deviceKey: DeviceKeyLoginMethod
  private let pattern: PatternLoginMethod
  private let idToken: IDTokenLoginMethod
  private let qrGrant: QRGrantLoginMethod

  init(
    _ evidence: Evidence,
    domain: IdentityDomain,
    tokens: TokenIssuer
  ) {
    let (secrets, challenges) = (evidence.secrets, evidence.challenges)
    self.evidence = evidence
    password = PasswordLoginMethod(domain: domain, secrets: secrets)
    otp = OTPLoginMethod(codes: evidence.codes)
    customSecret = CustomSecretLoginMethod(domain: domain, secrets: secrets)
    deviceKey = DeviceKeyLoginMethod(domain: domain, challenges: challenges, secrets: secrets)
    pattern = PatternLoginMethod(domain: domain, challenges: challenges, secrets: secrets)
    idToken = IDTokenLoginMethod(domain: domain, checks: evidence.idTokens)
    qrGrant = QRGrantLoginMethod(domain: domain, tokens: tokens, surroundings: evidence.surroundings)
  }

  /// Whether a person may have thought of what is presented, so that somebody else may think of it too.
  static func isGuessable(_ method: IdentityV1.AuthenticateRequest.Method) -> Bool {
    switch method {
    case .password, .customSecret, .pattern: true
    case .otp, .deviceKey, .idToken, .qrGrant: false
    }
  }

  /// Who the credential proves the caller to be.
  func verify(
    _ method: IdentityV1.AuthenticateRequest.Method,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    switch method {
    case .password(let credential): try await password.verify(credential, attempt)
    case .otp(let credential): try await otp.verify(credential, attempt)
    case .customSecret(let credential): try await customSecret.verify(credential, attempt)
    case .deviceKey(let credential): try await deviceKey.verify(credential, attempt)
    case .pattern(let credential): try await pattern.verify(credential, attempt)
    case .idToken(let credential): try await idToken.verify(credential, attempt)
    case .qrGrant(let credential): try await qrGrant.verify(credential, attempt)
    }
  }
}
