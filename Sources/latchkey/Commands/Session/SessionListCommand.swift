import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionListCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "Show where you are signed in, the newest first.",
    examples: ["latchkey session list"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let sessions = try await device.sessions()
    let rows = sessions.map { session in
      [
        session.sessionID, session.isCurrent ? "this" : "", session.method, session.deviceLabel, session.clientID,
        session.isConfirmed ? "" : "unconfirmed", session.lastUsedAt.map { Ago.text($0) } ?? "",
      ]
    }
    output.result(
      Output.table(["session", "", "method", "device", "app", "", "last used"], rows),
      [
        "sessions": .array(
          sessions.map { session in
            [
              "sid": .string(session.sessionID),
              "client_id": .string(session.clientID),
              "method": .string(session.method),
              "device_label": .string(session.deviceLabel),
              "platform": .string(session.platform),
              "scope": .string(session.scope),
              "created_at": session.createdAt.map { .string(RFC3339.text($0)) } ?? .null,
              "last_used_at": session.lastUsedAt.map { .string(RFC3339.text($0)) } ?? .null,
              "expires_at": session.expiresAt.map { .string(RFC3339.text($0)) } ?? .null,
              "current": .bool(session.isCurrent),
              "confirmed": .bool(session.isConfirmed),
            ]
          })
      ])
  }
}
