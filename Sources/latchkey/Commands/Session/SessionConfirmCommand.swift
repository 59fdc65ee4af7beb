import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionConfirmCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "confirm", abstract: "Say that a session that a code began is yours.",
    examples: ["latchkey session confirm $SESSION"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument(help: "Its id, as latchkey session list shows it.") var session: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    try await device.confirmSession(session)
    output.result("Confirmed.", ["sid": .string(session)])
  }
}
