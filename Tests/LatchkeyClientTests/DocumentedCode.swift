// What README and the guides show in Swift, compiled. `test_guides.py` holds the pages to these lines.
import LatchkeyClient

/// README, "Use it from Swift".
func startAsGuest() async throws {
  let device = try DeviceClient(
    connecting: ClientConfiguration(clientID: "my-app", qrBase: "https://login.example"),
    secrets: FileSecretStore(directory: "/home/ada/.my-app")
  )
  let start = try await device.startAsGuest(DeviceDescription(label: "Ada's phone"))
  print(start.created ? "Welcome." : "Welcome back.")
}

/// "First launch", "In Swift".
func openAccountSpace(_ start: GuestStart, _ cache: some Cache, _ history: some History) async throws {
  let scope = AccountScope(
    directory: "/home/ada/.my-app/data",
    steps: [
      AccountStep("cache") { change in
        if change.wipeRequired { try await cache.removeAll() }
      }
    ])
  let space = try await scope.enter(start.session)  // again with the session and change of each sign-in and sign-out
  try await space.write { directory in try history.save(in: directory) }
}

/// "Sign in a screen by QR code", "The screen shows a code".
func showCodes(_ device: DeviceClient, on screen: some Screen) async throws {
  let end = try await device.showQRCodes(
    QRCodeRequest(initiator: QRInitiator(label: "Living room", platform: "tv", app: "my-app"))
  ) { offer in
    await screen.draw(offer.payload, letters: offer.userCode, number: offer.checkCode)
  }
  if case .signedIn(let signIn) = end { await screen.welcome(signIn.session) }
}

/// "Sign in a screen by QR code", "The phone scans it".
func scan(_ content: String, _ device: DeviceClient, by person: some Person) async throws {
  let scan = try await device.scanQRCode(content)
  guard await person.agrees(to: scan) else { return try await device.denyQRCode(ticket: scan.confirmTicket) }
  let number = scan.needsCheckCode ? await person.numberOnTheScreen() : ""
  try await device.confirmQRCode(ticket: scan.confirmTicket, checkCode: number)
}

/// "Tokens in your own service".
func verify(_ token: String) async throws -> Bool {
  let verifier = try TokenVerifier(
    identity: ServiceAddress(host: "id.example", port: 7401), tls: ClientTLS(), issuer: "https://id.example",
    audience: "shop")  // one of identity's token.audiences
  let caller = try await verifier.verify(token)
  return caller.isGuest
}

/// What an app has of its own.
protocol Cache: Sendable {
  func removeAll() async throws
}

protocol Screen: Sendable {
  func draw(_ content: String, letters: String, number: String) async
  func welcome(_ session: Session) async
}

protocol Person: Sendable {
  func agrees(to scan: QRScan) async -> Bool
  func numberOnTheScreen() async -> String
}

protocol History: Sendable {
  func save(in directory: String) throws
}
