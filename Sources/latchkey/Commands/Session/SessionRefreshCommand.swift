import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionRefreshCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "refresh",
    abstract: "Exchange this profile's tokens for new ones now.",
    examples: ["latchkey session refresh"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let session = try await device.refreshSession()
    output.result("The tokens are new.", ["session": JSONValue(session)])
  }
}
