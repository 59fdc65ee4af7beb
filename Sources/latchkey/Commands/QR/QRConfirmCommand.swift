import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRConfirmCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "confirm",
    abstract: "Agree to the code that this profile scanned."
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: "The number that the screen shows beside the code.")
  var checkCode = ""

  @Option(help: "Allow only these space-separated scopes of those asked for.")
  var scope = ""

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    try await device.confirmQRCode(
      ticket: try Self.ticket(in: settings),
      checkCode: checkCode,
      scopeSubset: scope
    )
    try ProfileNote.qrConfirmTicket.remove(in: settings)
    output.result("The screen is being signed in.", ["state": "confirmed"])
  }

  static func ticket(in settings: Settings) throws(CommandFailure) -> String {
    guard let ticket = try ProfileNote.qrConfirmTicket.text(in: settings) else {
      throw CommandFailure(.usage, "this profile has scanned no code", hint: "latchkey qr scan")
    }
    return ticket
  }
}
