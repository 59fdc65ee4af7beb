import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRCancelCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "cancel",
    abstract: "Give up the code that this profile showed.",
    examples: ["latchkey qr cancel --profile desktop"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    try await device.cancelQRCode(try QRWaitCommand.ticket(in: settings))
    try ProfileNote.qrTicket.remove(in: settings)
    output.result("The code is cancelled.", ["state": "cancelled"])
  }
}
