import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRStatusCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Ask once what became of the code that this profile showed; signs in when it was agreed to.",
    examples: ["latchkey qr status --profile desktop"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let progress = try await device.pollQRSignIn(try QRWaitCommand.ticket(in: settings))
    switch progress {
    case .pending, .scanned, .agreed: break
    // The ticket is of no more use.
    default: try ProfileNote.qrTicket.remove(in: settings)
    }
    output.result(QRWaitCommand.sentence(progress, settings), JSONValue(progress))
  }
}
