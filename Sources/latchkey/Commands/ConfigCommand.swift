import ArgumentParser
import Cryptography
import LatchkeyClient

struct ConfigCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "config",
    abstract: "Show what flags and environment come to.",
    examples: ["latchkey config --profile phone"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let client = settings.client
    let rows = [
      ("identity", "\(client.identity)"),
      ("qr", "\(client.qr)"),
      ("migrator", "\(client.migrator)"),
      ("tls", settings.trust ?? "off"),
      ("client_id", client.clientID),
      ("qr_base", client.qrBase),
      ("profile_directory", settings.profileDirectory),
    ]
    output.result(
      Layout.pairs(rows, columns: Output.columns),
      .object(rows.map { JSONValue.Member($0.0, .string($0.1)) })
    )
  }
}
