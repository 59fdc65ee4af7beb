import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRWatchCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "watch",
    abstract: "Print each state of the code that this profile showed, as it comes, without signing in.",
    examples: ["latchkey qr watch --profile desktop"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let ticket = try QRWaitCommand.ticket(in: settings)
    try await device.watchQRCode(ticket) { progress in
      output.result(QRWaitCommand.sentence(progress, settings), JSONValue(progress))
    }
  }
}
