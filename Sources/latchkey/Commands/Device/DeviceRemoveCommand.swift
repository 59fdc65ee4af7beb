import ArgumentParser
import Cryptography
import LatchkeyClient

struct DeviceRemoveCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "remove", abstract: "End your sessions on a device, and what opens your account there.",
    examples: ["latchkey device remove --yes $DEVICE"]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var consent: ConsentOptions
  @Argument(help: "As latchkey device list shows it.") var device: KeyArgument

  func run(_ client: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    try consent.require("Sign that device out for good?", output)
    let ended = try await client.removeDevice(device.thumbprint)
    output.result("Sessions ended: \(ended).", ["sessions_ended": .integer(ended)])
  }
}
