import ArgumentParser
import Cryptography
import LatchkeyClient

struct DeviceRotateKeyCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "rotate-key",
    abstract: "Put a new key in the place of this profile's key. Its guest and sessions go on.",
    examples: ["latchkey device rotate-key"]
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: "A name that you recognise the device by.")
  var label = "latchkey command line"

  func run(_ client: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let thumbprint = try await client.rotateDeviceKey(DeviceDescription(label: label, platform: "cli"))
    output.result("The new key is \(thumbprint).", ["key_thumbprint": .string(thumbprint)])
  }
}
