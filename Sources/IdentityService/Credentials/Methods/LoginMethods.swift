import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

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
    accounts: any AccountStore,
    unlocks: any UnlockStore,
    sessions: any SessionStore,
    links: any LinkStore,
    tokens: TokenIssuer
  ) {
    let (secrets, challenges) = (evidence.secrets, evidence.challenges)
    self.evidence = evidence
    password = PasswordLoginMethod(accounts: accounts, secrets: secrets)
    otp = OTPLoginMethod(codes: evidence.codes)
    customSecret = CustomSecretLoginMethod(accounts: accounts, secrets: secrets)
    deviceKey = DeviceKeyLoginMethod(unlocks: unlocks, challenges: challenges, secrets: secrets)
    pattern = PatternLoginMethod(unlocks: unlocks, challenges: challenges, secrets: secrets)
    idToken = IDTokenLoginMethod(accounts: accounts, checks: evidence.idTokens)
    qrGrant = QRGrantLoginMethod(
      sessions: sessions, links: links, tokens: tokens, surroundings: evidence.surroundings)
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
