import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRDenyCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "deny",
    abstract: "Refuse the code that this profile scanned. Final.",
    examples: ["latchkey qr deny --report-abuse"]
  )

  @OptionGroup var options: DeviceOptions

  @Flag(help: "Say that somebody else started this.")
  var reportAbuse = false

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let ticket = try QRConfirmCommand.ticket(in: settings)
    let scanned = try ProfileNote.qrScan.bytes(in: settings).flatMap { ScannedCode($0) }
    try await QRConfirmCommand.inTime(scanned) { () async throws(ClientError) in
      try await device.denyQRCode(ticket: ticket, reportAbuse: reportAbuse)
    }
    try ProfileNote.qrConfirmTicket.remove(in: settings)
    try ProfileNote.qrScan.remove(in: settings)
    output.result("Refused. The screen gets nothing.", ["state": "denied"])
  }
}
