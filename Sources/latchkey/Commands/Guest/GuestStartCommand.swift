import ArgumentParser
import Cryptography
import LatchkeyClient

struct GuestStartCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "start",
    abstract: "Start using this device without an account, or find its guest again.",
    examples: [#"latchkey guest start --profile phone --label "Ada's phone""#]
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: "A name that you recognise the device by.")
  var label = "latchkey command line"

  @Option(help: "A language tag, such as en or pt-BR.")
  var locale = ""

  @Flag(help: "Say that the key outlived a reinstall of the app.")
  var reinstalled = false

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    if case .user = try await device.authState() {
      throw CommandFailure(.refused, "an account uses this profile", hint: "`logout --then-guest`")
    }
    let start = try await device.startAsGuest(
      DeviceDescription(label: label, platform: "cli", locale: locale, isReinstalled: reinstalled)
    )
    var text =
      start.created ? "You are a new guest on this device." : "Welcome back: this device's guest was found again."
    if let hint = start.lastLogin {
      text += "\nThe last account here signed in by \(hint.method) as \(hint.accountMask)."
    }
    output.result(
      text,
      [
        "created": .bool(start.created),
        "session": JSONValue(start.session),
        "last_login": start.lastLogin.map { hint in
          ["method": .string(hint.method), "account_mask": .string(hint.accountMask)]
        } ?? .null,
      ]
    )
  }
}
