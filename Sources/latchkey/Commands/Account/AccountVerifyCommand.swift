import ArgumentParser
import Cryptography
import LatchkeyClient

struct AccountVerifyCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify",
    abstract: "Show that an address of your account is yours.",
    discussion: """
      Without --code a code is sent there. A verified address signs in by codes and recovers the account; one that \
      nobody verified is its owner's who does.
      """,
    examples: ["latchkey account verify ada@example.com", "latchkey account verify ada@example.com --code $CODE"]
  )

  @OptionGroup var options: DeviceOptions

  @Argument(help: "An e-mail address or phone number of the account.")
  var address: String

  @Option(help: "The code that was sent.")
  var code: String?

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    guard let code else {
      let sent = try await device.sendCode(to: address, purpose: .proveAddress)
      return output.result(
        "A code is on its way: \(settings.command("account verify \(Settings.quoted(address)) --code CODE"))",
        ["expires_in": .integer(sent.expiresIn.components.seconds)])
    }
    let isNew = try await device.verify(address: address, code: code)
    output.result(isNew ? "The address is verified." : "The address was verified before.", ["verified": .bool(isNew)])
  }
}
