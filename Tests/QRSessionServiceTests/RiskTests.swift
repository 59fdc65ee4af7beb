import Callers
import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Logging
import ServiceRuntime
import TestSupport
import Testing

@testable import QRSessionService

/// Where a code is confirmed from, and what an installation makes of it.
@Suite struct RiskTests {
  /// Documentation addresses, placed in Berlin, Potsdam (27 km away) and Sydney.
  private static let table = """
    network,geoname_id,postal_code,latitude,longitude,accuracy_radius
    203.0.113.0/24,1,10117,52.52,13.40,10
    198.51.100.0/25,2,"14467, Potsdam",52.40,13.06,10
    198.51.100.128/25,3,2000,-33.87,151.21,10
    192.0.2.0/24,4,,,,
    2001:db8:1::/48,5,2000,-33.87,151.21,10

    """
  private static let potsdam = "198.51.100.1"
  private static let sydney = "198.51.100.200"

  private func places(_ text: String = table) throws -> GeoFile {
    let folder = try TemporaryFolder()
    return try write(text, in: folder)
  }

  private func write(_ text: String, in folder: TemporaryFolder) throws -> GeoFile {
    try overwrite(folder.file("qr.db"), with: text)
    return try GeoFile(
      paths: [folder.file("qr.db")],
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    )
  }

  private func rules(_ texts: String...) -> [QRRiskPolicy.Rule] { texts.compactMap { QRRiskPolicy.Rule($0) } }

  @Test("S10: the confirm screen is told how far away the other device is, to ten kilometres")
  func distance() async throws {
    let harness = try Harness(places: try places())
    func scan(from address: String) async throws -> QRV1.Risk? {
      try await harness.scan(try await harness.issue(), as: .phone(address: address)).risk
    }
    let near = try await scan(from: Self.potsdam)
    #expect(near?.distance == .near && near?.distanceKm == 30)
    #expect(near?.signals == ["different_network"] && near?.verdict == .warn)
    let far = try await scan(from: Self.sydney)
    #expect(far?.distance == .far && far?.distanceKm == 16_100)
    #expect(far?.signals == ["far", "different_network"])
    let six = try await scan(from: "2001:db8:1:2::3")
    #expect(six?.distance == .far)
    let nowhere = try await scan(from: "192.0.2.1")
    #expect(nowhere?.distance == .unknown && nowhere?.distanceKm == 0)
    let same = try await scan(from: "203.0.113.99")
    #expect(same?.distance == .sameNetwork && same?.signals == [] && same?.verdict == .allow)
  }

  @Test("S10, R35: each signal leads to what the installation decided", arguments: QRRiskAction.allCases)
  func policy(action: QRRiskAction) async throws {
    let harness = try Harness(places: try places()) {
      $0.checkCode = .never
      $0.risk.rules = rules("different_network=allow", "far=\(action.name)")
    }
    let issued = try await harness.issue()
    let away = ServerContext.phone(address: Self.sydney)
    guard action != .deny else {
      #expect(await refusal { _ = try await harness.scan(issued, as: away) } == .riskDenied)
      #expect(harness.audited == [.issued, .riskDenied])
      #expect(try await harness.stored(issued).phase == .pending)
      _ = try await harness.scan(issued)
      return
    }
    let scanned = try await harness.scan(issued, as: away)
    #expect(scanned.risk?.verdict == (action == .allow ? .allow : action == .warn ? .warn : .stepUp))
    #expect(scanned.risk?.signals == (action == .allow ? [] : ["far"]))
    #expect(scanned.needsCheckCode == (action == .stepUp))
    if action == .stepUp {
      // The screen shows the digits although nobody else is asked for them.
      #expect(!issued.checkCode.isEmpty)
      #expect(await refusal { try await harness.confirm(scanned, as: away) }?.code == .invalidArgument)
      try await harness.confirm(scanned, checkCode: issued.checkCode, as: away)
    } else {
      try await harness.confirm(scanned, as: away)
    }
  }

  @Test("S10: who scans nearby and confirms from far away is refused, and the code dies")
  func movedBetween() async throws {
    let harness = try Harness(places: try places()) { $0.risk.rules = rules("far=deny") }
    let issued = try await harness.issue()
    let scanned = try await harness.scan(issued)
    #expect(scanned.risk?.verdict == .allow)
    let away = ServerContext.phone(address: Self.sydney)
    #expect(await refusal { try await harness.confirm(scanned, as: away) } == .riskDenied)
    #expect(await refusal { try await harness.confirm(scanned) } == .noSuchCode)
    #expect(await refusal { _ = try await harness.poll(issued) } == .accessDenied)
    #expect(harness.audited == [.issued, .scanned, .riskDenied])
  }

  @Test("S10: who scans nearby and confirms from another network needs the digits after all")
  func steppedUpBetween() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let scanned = try await harness.scan(issued)
    #expect(!scanned.needsCheckCode)
    let away = ServerContext.phone(address: "198.51.100.1")
    #expect(await refusal { try await harness.confirm(scanned, as: away) }?.code == .invalidArgument)
    try await harness.confirm(scanned, checkCode: issued.checkCode, as: away)
  }

  @Test("S11: a step-up by reauthentication takes the device key's signature or a recent sign-in, and nothing else")
  func stepUpByReauthentication() async throws {
    let key = try P256PrivateKey()
    let harness = try Harness {
      $0.checkCode = .never
      $0.risk = QRRiskPolicy(rules: rules("different_network=step-up"), stepUp: .reauthentication)
    }
    harness.grants.register(key)
    func away(_ age: Duration) -> ServerContext {
      .phone(authenticatedAt: harness.clock.now() - age, address: "198.51.100.1")
    }
    let issued = try await harness.issue()
    #expect(issued.checkCode.isEmpty)
    let scanned = try await harness.scan(issued, as: away(.seconds(301)))
    #expect(scanned.needsReauth && !scanned.needsCheckCode)
    #expect(
      await refusal { try await harness.confirm(scanned, as: away(.seconds(301))) } == .reauthenticationRequired
    )
    // Coming home does not undo what the scan asked for.
    let home = ServerContext.phone(authenticatedAt: harness.clock.now() - .seconds(301))
    #expect(await refusal { try await harness.confirm(scanned, as: home) } == .reauthenticationRequired)
    let stolen = try harness.unlock(scanned, with: try P256PrivateKey())
    #expect(
      await refusal { try await harness.confirm(scanned, proof: stolen, as: away(.seconds(301))) } == .wrongReauthProof
    )
    try await harness.confirm(scanned, proof: try harness.unlock(scanned, with: key), as: away(.seconds(301)))

    let again = try await harness.issue()
    let rescanned = try await harness.scan(again, as: away(.seconds(299)))
    #expect(!rescanned.needsReauth)
    try await harness.confirm(rescanned, as: away(.seconds(299)))
  }

  @Test("S11: the device key's signature answers for an old sign-in; another ticket's does not")
  func unlock() async throws {
    let key = try P256PrivateKey()
    let harness = try Harness { $0.confirm.maximumAuthenticationAge = .seconds(300) }
    harness.grants.register(key)
    let old = ServerContext.phone(authenticatedAt: harness.clock.now() - .seconds(301))
    let scanned = try await harness.scan(try await harness.issue(), as: old)
    #expect(scanned.needsReauth)
    let earlier = try harness.unlock(try await harness.scan(try await harness.issue(), as: old), with: key)
    #expect(await refusal { try await harness.confirm(scanned, proof: earlier, as: old) } == .wrongReauthProof)
    try await harness.confirm(scanned, proof: try harness.unlock(scanned, with: key), as: old)
  }

  @Test("S10: a phone that hears the screen is nearby, whatever the networks say; one that hears another is not")
  func beacon() async throws {
    let harness = try Harness(places: try places()) { $0.risk.rules = rules("no_beacon=step-up", "far=deny") }
    let away = ServerContext.phone(address: Self.sydney)
    let issued = try await harness.issue()
    let other = try await harness.issue()
    #expect(!issued.qrPayload.contains(issued.beacon) && issued.beacon != other.beacon)
    #expect(await refusal { _ = try await harness.scan(issued, as: away) } == .riskDenied)
    #expect(await refusal { _ = try await harness.scan(issued, beacons: [other.beacon], as: away) } == .riskDenied)
    let deaf = try await harness.scan(issued)
    #expect(deaf.risk?.signals == ["no_beacon"] && deaf.needsCheckCode)
    let wrong = try await harness.scan(issued, beacons: [other.beacon, "noise"])
    #expect(wrong.risk?.signals == ["wrong_beacon"])
    let heard = ["noise", other.beacon, issued.beacon]
    // What a scan asked for stays asked for.
    #expect(try await harness.scan(issued, beacons: heard, as: away).needsCheckCode)
    let scanned = try await harness.scan(other, beacons: heard, as: away)
    #expect(scanned.risk?.distance == .nearby && scanned.risk?.verdict == .allow && !scanned.needsCheckCode)
    try await harness.confirm(scanned, as: away)
    let many = [String](repeating: issued.beacon, count: 17)
    #expect(await refusal { _ = try await harness.scan(issued, beacons: many) }?.code == .invalidArgument)
  }

  @Test("S10: a rule for a client goes before one for a purpose, and that before one for all")
  func precedence() throws {
    let policy = QRRiskPolicy(
      rules: rules("kiosk@far=allow", "far=deny", "login:far=step-up", "kiosk@bind-device:far=warn")
    )
    let (kiosk, other) = (try #require(ClientID("kiosk")), try #require(ClientID("other")))
    #expect(policy.action(for: .far, purpose: .login, client: other) == .stepUp)
    #expect(policy.action(for: .far, purpose: .bindDevice, client: other) == .deny)
    #expect(policy.action(for: .far, purpose: .login, client: kiosk) == .allow)
    #expect(policy.action(for: .far, purpose: .bindDevice, client: kiosk) == .warn)
    #expect(QRRiskPolicy().action(for: .differentNetwork, purpose: .login, client: other) == .warn)
  }

  @Test(
    "S10: what is no rule is refused",
    arguments: [
      "", "far", "far=", "far=maybe", "near=deny", "=deny", "sign-in:far=deny", "Kiosk@far=deny", "far=deny=x",
    ]
  )
  func badRules(text: String) { #expect(QRRiskPolicy.Rule(text) == nil) }

  @Test("S10: a changed table is used once it is read again, and a damaged one changes nothing")
  func reload() throws {
    let folder = try TemporaryFolder()
    let file = try write(Self.table, in: folder)
    let address = try #require(NetworkAddress("203.0.113.7"))
    let berlin = try #require(file.place(of: address))
    try overwrite(folder.file("qr.db"), with: "network,latitude,longitude\n203.0.113.0/24,91,0\n")
    file.reload()
    #expect(file.place(of: address) == berlin)
    try overwrite(folder.file("qr.db"), with: "start_ip,end_ip,latitude,longitude\n203.0.113.0,203.0.113.9,1.5,2.5\n")
    file.reload()
    #expect(file.place(of: address) == Place(latitude: 1.5, longitude: 2.5))
    #expect(file.place(of: try #require(NetworkAddress("203.0.113.10"))) == nil)
  }

  @Test(
    "S10: a table that could not be trusted is refused with its line",
    arguments: [
      ("", "must name the columns"), ("network,latitude\n", "line 1"),
      ("network,latitude,longitude\nx,1,1\n", "line 2"),
      ("network,latitude,longitude\n10.0.0.0/33,1,1\n", "line 2"),
      ("network,latitude,longitude\n10.0.0.0/8,1,1\n10.1.0.0/16,1,1\n", "overlap"),
      ("start_ip,end_ip,latitude,longitude\n10.0.0.9,10.0.0.1,1,1\n", "line 2"),
      ("network,latitude,longitude\n10.0.0.0/8,north,1\n", "line 2"),
    ])
  func badTables(text: String, reason: String) throws {
    do {
      _ = try places(text)
      Issue.record("accepted")
    } catch let error as ConfigurationError {
      #expect("\(error)".contains(reason))
    }
  }

  @Test("R26: an account that decides in vain too often waits; decisions that are right do not count")
  func decisions() async throws {
    let harness = try Harness { $0.decisionRate = Rate(5, per: .seconds(60)) }
    for _ in 0..<10 { _ = try await harness.confirmed() }
    let scanned = try await harness.scan(try await harness.issue())
    var unknown = scanned
    unknown.confirmTicket = String(scanned.confirmTicket.dropLast(3)) + "AAA"
    for _ in 0..<5 { #expect(await refusal { try await harness.confirm(unknown) } == .noSuchCode) }
    #expect(await refusal { try await harness.confirm(scanned) }?.code == .resourceExhausted)
    #expect(await refusal { try await harness.deny(scanned) }?.code == .resourceExhausted)
    harness.clock.move(by: .seconds(13))
    try await harness.confirm(scanned)
  }

  @Test("S13: a source has so many codes on screens at a time, and one that ends makes room")
  func outstanding() async throws {
    let harness = try Harness { $0.outstandingCodes = 3 }
    let first = try await harness.issue()
    for _ in 0..<2 { _ = try await harness.issue() }
    #expect(await refusal { _ = try await harness.issue() }?.code == .resourceExhausted)
    _ = try await harness.issue(context: .screen(address: "198.51.100.1"))
    _ = try await harness.api.cancelSession(
      QRV1.CancelSessionRequest(deviceCode: first.deviceCode),
      context: .screen()
    )
    _ = try await harness.issue()
    #expect(await refusal { _ = try await harness.issue() }?.code == .resourceExhausted)
    harness.clock.move(by: .seconds(120))
    _ = try await harness.issue()
  }

  @Test("Scanning again from one session asks identity once a minute, and bounded is what is remembered")
  func descriptions() async throws {
    let harness = try Harness()
    for _ in 0..<5 { _ = try await harness.scan(try await harness.issue()) }
    #expect(harness.grants.state.withLock { $0.described } == 1)
    harness.clock.move(by: .seconds(60))
    _ = try await harness.scan(try await harness.issue())
    #expect(harness.grants.state.withLock { $0.described } == 2)

    let descriptions = SubjectDescriptions(harness.grants, capacity: 3)
    for number in 0..<10 {
      _ = try await descriptions.description(
        of: try #require(SubjectID(ServerContext.id("ada"))),
        session: try #require(SessionID(ServerContext.id("\(number)"))),
        at: harness.clock.now(),
        deadline: nil
      )
      #expect(descriptions.count <= 3)
    }
  }

  @Test("S20: a guest that moves to another network takes the screen's digits, also where sign-ins do not")
  func transferStepsUp() async throws {
    let screen = try P256PrivateKey()
    let harness = try Harness { $0.checkCode = .never }
    let issued = try await harness.issue {
      $0.purpose = .transferGuest
      $0.deviceKey = .init(screen.publicKey)
    }
    #expect(!issued.checkCode.isEmpty)
    let guest = ServerContext.phone(
      "guest", isGuest: true, authenticatedAt: harness.clock.now(), address: "198.51.100.1")
    let scanned = try await harness.scan(issued, as: guest)
    #expect(scanned.needsCheckCode && scanned.risk?.verdict == .stepUp)
    #expect(await refusal { try await harness.confirm(scanned, as: guest) }?.code == .invalidArgument)
    try await harness.confirm(scanned, checkCode: issued.checkCode, as: guest)
    let login = try await harness.issue()
    #expect(login.checkCode.isEmpty)
    #expect(try await !harness.scan(login, as: .phone(address: "198.51.100.1")).needsCheckCode)
  }
}
