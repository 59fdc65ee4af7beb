import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionIntrospectCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "introspect",
    abstract: "Ask the service whether this profile's access token holds now.",
    examples: ["latchkey session introspect"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let status = try await device.introspect()
    let until = status.expiresAt.map { " and ends \(Ago.text($0))" } ?? ""
    output.result(
      status.active
        ? "The token of \(status.isGuest ? "a guest" : "an account") holds\(until).\nScopes: \(status.scope)"
        : "The token does not hold.",
      [
        "active": .bool(status.active),
        "sub": .string(status.subject.rawValue),
        "is_guest": .bool(status.isGuest),
        "sid": .string(status.sessionID),
        "scope": .string(status.scope),
        "client_id": .string(status.clientID),
        "iss": .string(status.issuer),
        "aud": .array(status.audience.map { .string($0) }),
        "expires_at": status.expiresAt.map { .string(RFC3339.text($0)) } ?? .null,
      ]
    )
    if !status.active { throw ExitCode(CommandFailure.Status.notSignedIn.rawValue) }
  }
}
