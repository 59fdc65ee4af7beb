import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionShowCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "show",
    abstract: "Say who uses this profile, how, since and until when, and by which services.",
    discussion: """
      What this device knows by itself is said without asking anybody, and that alone with --json; the rest is asked \
      of the service, as far as it answers.
      """,
    examples: ["latchkey session show"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    switch try await device.authState() {
    case .unknown: output.result("Nobody is signed in.", ["state": "unknown"])
    case .guest(let session):
      let text = await text("A guest", session, device, settings, output)
      output.result(text, ["state": "guest", "session": JSONValue(session)])
    case .user(let session):
      let text = await text("An account", session, device, settings, output)
      output.result(text, ["state": "user", "session": JSONValue(session)])
    }
  }

  private func text(
    _ who: String, _ session: Session, _ device: DeviceClient, _ settings: Settings, _ output: Output
  ) async -> String {
    guard !output.json else { return "" }
    var rows = [("who", "\(who.lowercased()), \(session.subject.rawValue)")]
    // Who cannot be asked has nothing to say: what the device knows stands all the same.
    if let here = try? await device.sessions().first(where: \.isCurrent) {
      rows.append(("how", here.method))
      if let time = here.createdAt { rows.append(("since", "\(Ago.text(time)), \(RFC3339.text(time))")) }
      if let time = here.expiresAt { rows.append(("until", "\(Ago.text(time)), \(RFC3339.text(time))")) }
      if !here.deviceLabel.isEmpty { rows.append(("device", here.deviceLabel)) }
    }
    rows += [
      ("where", "identity at \(settings.client.identity)\(settings.trust == nil ? "" : " by TLS")"),
      ("may", session.scope), ("session", session.sessionID),
    ]
    return "\(who) uses this profile.\n" + Layout.pairs(rows, indent: 2, columns: Output.columns)
  }
}
