import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRScanCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "scan",
    abstract: "Claim a code with this phone, and see who asks. Signs nobody in.",
    examples: [#"latchkey qr scan "$PAYLOAD""#, "latchkey qr scan --user-code $LETTERS"]
  )

  @OptionGroup var options: DeviceOptions

  @Argument(help: "What the code holds, as a camera or zbarimg reads it, or the eight letters beside it.")
  var content: String?

  @Option(help: "The eight letters beside the code, for a phone without a camera.")
  var userCode: String?

  @Option(help: "A beacon that this phone hears over Bluetooth; may be given several times.")
  var beacon: [String] = []

  func validate() throws {
    guard (content == nil) != (userCode == nil) else {
      throw ValidationError("say what the code holds, or --user-code")
    }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let scan =
      if let userCode = userCode ?? typedCode { try await device.scanUserCode(userCode, beacons: beacon) } else {
        try await device.scanQRCode(content ?? "", beacons: beacon)
      }
    try ProfileNote.qrConfirmTicket.keep(scan.confirmTicket, in: settings)
    try ProfileNote.qrScan.keep(ScannedCode(scan).encoded(), in: settings)
    let canAsk = Prompt.isPossible(output) && !scan.needsReauthentication
    output.result(Self.text(scan, settings, withCommands: !canAsk), JSONValue(scan))
    if canAsk { try await decide(scan, device, settings, output) }
  }

  /// The argument, where it is letters as a person reads them off a screen: what a code holds is never so short.
  private var typedCode: String? {
    guard let content, content.utf8.count <= 9, content.utf8.count(where: { $0 != UInt8(ascii: "-") }) == 8 else {
      return nil
    }
    return content
  }

  /// Asks the person at the terminal, and does what they say.
  private func decide(
    _ scan: QRScan, _ device: DeviceClient, _ settings: Settings, _ output: Output
  ) async throws {
    guard Prompt.agrees(to: "Agree?") else {
      try await device.denyQRCode(ticket: scan.confirmTicket)
      try ProfileNote.qrConfirmTicket.remove(in: settings)
      try ProfileNote.qrScan.remove(in: settings)
      throw CommandFailure(.undecided, "you refused: the screen is not signed in")
    }
    var number = ""
    if scan.needsCheckCode { number = Prompt.text("The number that the screen shows: ") }
    try await device.confirmQRCode(ticket: scan.confirmTicket, checkCode: number, scopeSubset: "", unlocked: nil)
    try ProfileNote.qrConfirmTicket.remove(in: settings)
    try ProfileNote.qrScan.remove(in: settings)
    output.progress(scan.action == nil ? "The screen is being signed in." : "Agreed.")
  }

  private static func text(_ scan: QRScan, _ settings: Settings, withCommands: Bool) -> String {
    let device = [scan.initiator.label, scan.initiator.platform, scan.initiator.app].filter { !$0.isEmpty }
    var lines = ["\(device.joined(separator: ", ")) \(Self.wish(scan.purpose))."]
    if let action = scan.action {
      lines.append("  \(action.text)")
      if !action.amount.isEmpty { lines.append("  \(action.amount) \(action.currency)") }
      lines.append("  for \(scan.clientID)\(action.reference.isEmpty ? "" : ", \(action.reference)")")
    }
    if !scan.network.isEmpty {
      lines.append("It is on the network \(scan.network)\(scan.isSameNetwork ? ", the same as this device" : "").")
    }
    if let kilometres = scan.kilometres { lines.append("That is up to \(kilometres) km from here.") }
    if !scan.scope.isEmpty { lines.append("It may then: \(scan.scope).") }
    // What is asked for was written by whoever made the code: it may not pass for a line of ours.
    lines = lines.map { TerminalText.line($0) }
    for signal in scan.signals { lines.append(Style.alarm("Careful: \(TerminalText.line(signal)).")) }
    lines.append("Agree only if you started this yourself, within \(Output.seconds(scan.expiresIn)).")
    if withCommands {
      var confirm = "qr confirm"
      if scan.needsCheckCode { confirm += " --check-code NUMBER-ON-THE-SCREEN" }
      if scan.needsReauthentication, !scan.needsStepUp { confirm += " --unlock" }
      if scan.needsStepUp {
        // Only a guest's device may be taken over, and a guest proves itself by the device's key.
        let who = scan.purpose == .transferGuest ? "--device-key" : "ACCOUNT"
        lines.append("  \(settings.command("session step-up \(who)"))")
      }
      lines += ["  \(settings.command("qr deny"))", "  \(settings.command(confirm))"]
    }
    return lines.joined(separator: "\n")
  }

  private static func wish(_ purpose: QRSignInPurpose?) -> String {
    switch purpose {
    case .login: "asks to be signed in"
    case .bindDevice: "asks to become one of your devices"
    case .transferGuest: "asks to take over from this device"
    case .confirmAction: "asks you to agree to this"
    case nil: "asks for something that this version does not know: refuse it"
    }
  }
}
