import ArgumentParser
import Cryptography
import LatchkeyClient

struct LinkRemoveCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "remove", abstract: "Let an identity lead to your account no longer. The last one stays.",
    examples: ["latchkey link remove --password-file password $IDENTITY"]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var password: PasswordOption
  @Argument(help: "As latchkey link list shows it.") var identity: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    try await device.unlink(identityID: identity, password: try password.ifGiven())
    output.result("Removed.", ["identity_id": .string(identity)])
  }
}
