import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRScanCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "scan",
    abstract: "Claim a code with this phone, and see who asks. Signs nobody in."
  )

  @OptionGroup var options: DeviceOptions

  @Argument(help: "What the code holds, as a camera or zbarimg reads it.")
  var content: String?

  @Option(help: "The eight letters beside the code, for a phone without a camera.")
  var userCode: String?

  func validate() throws {
    guard (content == nil) != (userCode == nil) else {
      throw ValidationError("say what the code holds, or --user-code")
    }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let scan =
      if let userCode { try await device.scanUserCode(userCode) } else { try await device.scanQRCode(content ?? "") }
    try ProfileNote.qrConfirmTicket.keep(scan.confirmTicket, in: settings)
    output.result(Self.text(scan), JSONValue(scan))
  }

  private static func text(_ scan: QRScan) -> String {
    let device = [scan.initiator.label, scan.initiator.platform, scan.initiator.app].filter { !$0.isEmpty }
    var lines = [
      "\(device.joined(separator: ", ")) asks to be signed in (\(scan.purpose?.rawValue ?? "unknown purpose"))."
    ]
    if !scan.network.isEmpty {
      lines.append("It is on the network \(scan.network)\(scan.isSameNetwork ? ", the same as this device" : "").")
    }
    if !scan.scope.isEmpty { lines.append("It may then: \(scan.scope).") }
    for signal in scan.signals { lines.append("Careful: \(signal).") }
    lines.append("Agree only if you started this yourself, within \(Output.seconds(scan.expiresIn)):")
    lines.append("  latchkey qr deny")
    lines.append("  latchkey qr confirm" + (scan.needsCheckCode ? " --check-code NUMBER-ON-THE-SCREEN" : ""))
    return lines.joined(separator: "\n")
  }
}
