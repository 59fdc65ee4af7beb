import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionStepUpCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "step-up",
    abstract: "Prove again who you are, so that this session may change who gets in.",
    discussion: """
      What changes who gets in asks for a proof of the last minutes. At a terminal, the password is asked for when it is \
      needed; this command is for scripts, and for who proves themselves by something else. A guest needs nothing.
      """,
    examples: ["latchkey session step-up ada@example.com --password-file password"]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var password: PasswordOption

  @Argument(help: "The account's e-mail address, phone number or user name.")
  var identifier: String?

  @Option(help: "The code that latchkey login --send-code sent takes the password's place.")
  var code: String?

  @Flag(help: "The account is a name that an app made for itself; its secret takes the password's place.")
  var customID = false

  @Flag(help: "The pattern or PIN of this device takes the password's place; the account need not be said.")
  var pattern = false

  @Flag(help: "This device's key alone: a guest's.")
  var deviceKey = false

  func validate() throws {
    guard [identifier != nil, pattern, deviceKey].count(where: { $0 }) == 1 else {
      throw ValidationError("say one of an account, --pattern and --device-key")
    }
    guard identifier != nil || (code == nil && !customID) else { throw ValidationError("say the account") }
    guard code == nil || !customID else { throw ValidationError("say at most one of --code and --custom-id") }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let session = try await device.stepUp(with: try credential())
    output.result(
      "You have proved who you are: for some minutes this session may change who gets in.", JSONValue(session))
  }

  private func credential() throws -> SignInCredential {
    let identifier = identifier ?? ""
    if let code { return .code(identifier: identifier, code: code) }
    if deviceKey { return .deviceKey }
    if pattern { return .pattern(try password.password()) }
    let secret = try password.password()
    return customID
      ? .customSecret(id: identifier, secret: secret) : .password(identifier: identifier, password: secret)
  }
}
