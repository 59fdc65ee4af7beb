import ArgumentParser
import Cryptography
import LatchkeyClient

struct TransferCreateCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "create",
    abstract: "Make a code for the other device. It holds once and for ten minutes.",
    discussion: "Whoever has the code becomes you on their device. Give it to nobody.",
    examples: ["latchkey transfer create --old-device revoked"]
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: "What the other device may make of this one: either, kept or revoked.")
  var oldDevice = "either"

  @Flag(help: "Only a device of the same network may redeem it.")
  var sameNetwork = false

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    guard let oldDevice = OldDevice(rawValue: oldDevice) else {
      throw CommandFailure.usage("--old-device: either, kept or revoked")
    }
    let offer = try await device.offerTransfer(oldDevice: oldDevice, sameNetworkOnly: sameNetwork)
    output.result(
      """
      On the other device: \(Style.strong("latchkey transfer redeem \(offer.code)"))
      Or scan: \(offer.payload)
      It holds for \(Output.seconds(offer.expiresIn)); to take it back: \
      \(settings.command("transfer cancel", of: offer.transferID))
      """,
      [
        "code": .string(offer.code),
        "qr_payload": .string(offer.payload),
        "transfer_id": .string(offer.transferID),
        "expires_in_ms": .integer(Output.milliseconds(offer.expiresIn)),
      ])
  }
}
