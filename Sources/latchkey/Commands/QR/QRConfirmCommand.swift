import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRConfirmCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "confirm",
    abstract: "Agree to the code that this profile scanned.",
    examples: ["latchkey qr confirm"]
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: "The number that the screen shows beside the code.")
  var checkCode = ""

  @Option(help: "Allow only these space-separated scopes of those asked for.")
  var scope = ""

  @Flag(help: "Sign with the device's key, as a phone does once its lock was opened for this.")
  var unlock = false

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let ticket = try Self.ticket(in: settings)
    let scanned = try ProfileNote.qrScan.bytes(in: settings).flatMap { ScannedCode($0) }
    try await Self.inTime(scanned) { () async throws(ClientError) in
      try await device.confirmQRCode(
        ticket: ticket,
        checkCode: checkCode,
        scopeSubset: scope,
        unlocked: unlock ? QRUnlock(action: scanned?.action, clientID: scanned?.clientID ?? "") : nil
      )
    }
    try ProfileNote.qrConfirmTicket.remove(in: settings)
    try ProfileNote.qrScan.remove(in: settings)
    let said =
      scanned?.action == nil
      ? "The screen is being signed in." : "Agreed: \(TerminalText.line(scanned?.action?.text ?? ""))"
    output.result(said, ["state": "confirmed"])
  }

  /// The service says of codes that are over that there are none, whoever asks; this device knows better.
  static func inTime(_ scanned: ScannedCode?, _ decide: () async throws(ClientError) -> Void) async throws {
    do throws(ClientError) {
      try await decide()
    } catch {
      guard case .call(let call) = error, call.code == "NOT_FOUND", scanned?.isOver == true else { throw error }
      throw CommandFailure(.refused, "the time to agree is over", hint: "scan it again, or a new one: `qr scan CODE`")
    }
  }

  static func ticket(in settings: Settings) throws(CommandFailure) -> String {
    guard let ticket = try ProfileNote.qrConfirmTicket.text(in: settings) else {
      throw CommandFailure(.usage, "this profile has scanned no code", hint: "`qr scan`")
    }
    return ticket
  }
}
