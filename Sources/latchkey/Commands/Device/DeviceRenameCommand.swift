import ArgumentParser
import Cryptography
import LatchkeyClient

struct DeviceRenameCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "rename", abstract: "Give a device a name that you recognise.",
    examples: [#"latchkey device rename $DEVICE "Ada's laptop""#]
  )

  @OptionGroup var options: DeviceOptions
  @Argument(help: "As latchkey device list shows it.") var device: KeyArgument
  @Argument var label: String

  func run(_ client: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    try await client.renameDevice(device.thumbprint, to: label)
    output.result("Renamed.", ["key_thumbprint": .string(device.thumbprint), "label": .string(label)])
  }
}
