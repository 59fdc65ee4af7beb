import ArgumentParser
import Cryptography
import LatchkeyClient

struct RegisterCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "register",
    abstract: "Make an account. This device's guest becomes it and keeps its data.",
    examples: ["latchkey register ada@example.com --password-file password"]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var password: PasswordOption

  @Argument(help: "An e-mail address, a phone number (+…) or a user name.")
  var identifier: String

  @Option(help: "What the account is called, at most 10 characters.")
  var nickname = ""

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let signIn = try await device.register(
      identifier: identifier,
      password: try password.password(isNew: true),
      nickname: nickname
    )
    let promoted = signIn.change?.promoted == true
    output.result(
      promoted ? "The guest of this device is now your account, with everything it had." : "Your account is made.",
      JSONValue(signIn)
    )
  }
}
