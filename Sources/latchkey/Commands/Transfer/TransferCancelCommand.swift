import ArgumentParser
import Cryptography
import LatchkeyClient

struct TransferCancelCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "cancel", abstract: "Take a code back.",
    examples: ["latchkey transfer cancel $TRANSFER"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument(help: "As latchkey transfer create showed it.") var transfer: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let cancelled = try await device.cancelTransfer(transfer)
    output.result(
      cancelled ? "Taken back." : "It was redeemed, taken back or expired before.", ["cancelled": .bool(cancelled)])
  }
}
