import ArgumentParser
import Cryptography
import LatchkeyClient

struct AccountDeleteCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "delete", abstract: "Delete your account and everything in it, for good.",
    examples: ["latchkey account delete --yes --password-file password"]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var password: PasswordOption

  @OptionGroup var consent: ConsentOptions

  @Flag(help: "The account has no password; the sign-in has to be a moment ago.")
  var withoutPassword = false

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    guard consent.yes || Prompt.isPossible(output) else {
      throw CommandFailure.usage("--yes says that you mean it: nothing of the account can be brought back")
    }
    try consent.require("Delete your account and everything in it, for good?", output)
    try await device.deleteAccount(password: withoutPassword ? "" : try password.password())
    output.result("The account is deleted.", ["deleted": true])
  }
}
