import ArgumentParser
import Cryptography
import LatchkeyClient

struct DeviceRemoveCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "remove", abstract: "End your sessions on a device, and what opens your account there.")

  @OptionGroup var options: DeviceOptions
  @Argument(help: "As latchkey device list shows it.") var device: String

  func run(_ client: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let ended = try await client.removeDevice(device)
    output.result("Sessions ended: \(ended).", ["sessions_ended": .integer(ended)])
  }
}
