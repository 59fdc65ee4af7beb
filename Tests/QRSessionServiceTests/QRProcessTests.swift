import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Testing

@testable import QRSessionService

@Suite struct QRProcessTests {
  private func settings(_ arguments: [String]) throws -> QRSettings {
    let invocation = try ServiceInvocation(QRProcess.description, arguments: arguments, environment: [:])
    guard case .run(let configuration) = invocation else {
      Issue.record("not a run")
      throw ConfigurationError.conflict("not a run")
    }
    return try QRSettings(QRConfiguration(configuration))
  }

  @Test("R28: without configuration a code lives two minutes, points here and is limited")
  func defaults() throws {
    let settings = try settings([])
    #expect(settings.verificationBase.text == "http://127.0.0.1:7402")
    #expect(settings.lifetime == .seconds(120))
    #expect(settings.interval == .seconds(5))
    #expect(settings.longPollInterval == .seconds(2))
    #expect(settings.clients?.map(\.description) == ["latchkey-demo"])
    #expect(settings.confirm.maximumAuthenticationAge == nil)
    #expect(settings.checkCode == .onRisk)
    #expect(settings.issueRate == Rate(600, per: .seconds(60)))
    #expect(settings.scanRate == Rate(60, per: .seconds(60)))
  }

  @Test("Every key reaches the settings")
  func keys() throws {
    let settings = try settings([
      "--verification-base", "https://login.example", "--clients", "tv,desk", "--instance", "7",
      "--code-lifetime", "30s", "--poll-interval", "0s", "--poll-long-interval", "1s",
      "--confirm-maximum-authentication-age", "5m", "--confirm-check-code", "always",
      "--limits-issues-per-minute", "0", "--limits-scans-per-minute", "3",
      "--client-names", "tv=Player for TV", "--oauth-clients-without-pkce", "desk",
    ])
    #expect(settings.clientNames.map { "\($0)=\($1)" } == ["tv=Player for TV"])
    #expect(settings.clientsWithoutPKCE.map(\.description) == ["desk"])
    #expect(settings.verificationBase.text == "https://login.example")
    #expect(settings.clients?.map(\.description).sorted() == ["desk", "tv"])
    #expect(settings.instance == 7)
    #expect(settings.lifetime == .seconds(30))
    #expect(settings.interval == .zero)
    #expect(settings.longPollInterval == .seconds(1))
    #expect(settings.confirm.maximumAuthenticationAge == .seconds(300))
    #expect(settings.checkCode == .always)
    #expect(settings.issueRate == nil)
    #expect(settings.scanRate == Rate(3, per: .seconds(60)))
    #expect(try self.settings(["--clients", "*"]).clients == nil)
  }

  @Test(
    "S4, S22: what would weaken a code is refused at start",
    arguments: [
      ["--code-lifetime", "601s"], ["--code-lifetime", "0s"], ["--verification-base", "https://login.example/"],
      ["--verification-base", "login.example"], ["--clients", "*,tv"], ["--clients", "Not An Id"],
      ["--confirm-check-code", "sometimes"], ["--poll-interval", "61s"], ["--instance", "65536"],
      ["--client-names", "tv"], ["--client-names", "tv=a,tv=b"], ["--oauth-clients-without-pkce", "*"],
    ])
  func refused(arguments: [String]) {
    #expect(throws: ConfigurationError.self) { try settings(arguments) }
  }

  @Test("The codes of a port that the system chooses point where other services are told to look")
  func chosenPort() throws {
    let base = try settings(["--listen-port", "0", "--qr-address", "qr.internal:9000"]).verificationBase
    #expect(base.text == "http://qr.internal:9000")
  }

  @Test("R34, S11: the initiating device needs no account; whoever scans or decides needs a token")
  func access() {
    for method in QRV1.QrSessionServiceMethod.allCases {
      let policy = QRAccess.policies[method.rpc]
      switch method {
      case .issueSession, .pollSession, .watchSession, .cancelSession: #expect(policy == .open)
      case .scanSession, .confirmSession, .denySession: #expect(policy?.requirement.scope == .account)
      }
    }
  }
}
