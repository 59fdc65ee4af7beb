import ArgumentParser
import Cryptography
import LatchkeyClient

struct LinkAddCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "add", abstract: "Let another identifier lead to your account.",
    examples: ["latchkey link add ada@example.org --password-file password"]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var password: PasswordOption
  @Argument(help: "An e-mail address, a phone number or a user name.") var identifier: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let identity = try await device.link(identifier: identifier, password: try password.ifGiven())
    output.result("\(identity.mask) leads to your account.", ["identity": JSONValue(identity)])
  }
}
