import ArgumentParser
import Cryptography
import LatchkeyClient

struct TransferRedeemCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "redeem",
    abstract: "Become the guest or account that a code offers.",
    discussion: "Whoever used this profile before is replaced; see latchkey transfer inspect first.",
    examples: ["latchkey transfer redeem $CODE --profile new-phone"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument(help: "The code, or what the QR code holds.") var code: String

  @Flag(help: "The other device stays signed in.")
  var keepOld = false

  @Option(help: "A name that you recognise the device by.")
  var label = "latchkey command line"

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let signIn = try await device.redeemTransfer(
      TransferSecret(code), keepOld: keepOld, DeviceDescription(label: label, platform: "cli"))
    output.result(
      signIn.session.isGuest ? "You are the guest of the other device." : "You are signed in as on the other device.",
      JSONValue(signIn))
  }
}
