import ArgumentParser
import Cryptography
import LatchkeyClient

struct TransferInspectCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "inspect", abstract: "Say what a code would move here. Changes nothing.",
    examples: ["latchkey transfer inspect $CODE --profile new-phone"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument(help: "The code, or what the QR code holds.") var code: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let preview = try await device.inspectTransfer(TransferSecret(code))
    let who = preview.isGuest ? "a guest" : "the account \(preview.accountMask)"
    output.result(
      """
      \(who) of \(preview.deviceLabel.isEmpty ? "an unnamed device" : preview.deviceLabel)\
      \(preview.isSameNetwork ? "" : ", IN ANOTHER NETWORK"), for \(Output.seconds(preview.expiresIn)) more.
      """,
      [
        "is_guest": .bool(preview.isGuest),
        "account_mask": .string(preview.accountMask),
        "device_label": .string(preview.deviceLabel),
        "platform": .string(preview.platform),
        "old_device": .string(preview.oldDevice.rawValue),
        "same_network": .bool(preview.isSameNetwork),
        "expires_in_ms": .integer(Output.milliseconds(preview.expiresIn)),
      ])
  }
}
