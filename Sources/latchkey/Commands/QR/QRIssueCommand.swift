import ArgumentParser
import Cryptography
import Glibc
import LatchkeyClient
import QRCode

struct QRIssueCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "issue",
    abstract: "Show a code for a phone to scan."
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: "What the phone will say is asking.")
  var label = "latchkey command line"

  @Option(help: "login, bind-device, transfer-guest or confirm-action.")
  var purpose: QRSignInPurpose = .login

  @Option(help: "Space-separated scopes to ask for; none asks for the usual ones.")
  var scope = ""

  @Option(help: ArgumentHelp("Write the code as a PNG image.", valueName: "path"))
  var png: String?

  @Option(help: ArgumentHelp("Write the code as an SVG image.", valueName: "path"))
  var svg: String?

  @Flag(inversion: .prefixedNo, help: "Draw the code in the terminal.")
  var draw = true

  @Flag(help: "Wait for the sign-in, as qr wait does.")
  var wait = false

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let offer = try await device.issueQRCode(
      QRInitiator(label: label, platform: "cli", app: "latchkey"),
      purpose: purpose,
      scope: scope
    )
    try ProfileNote.qrTicket.keep(offer.ticket.encoded(), in: settings)
    try show(offer, output)
    guard wait else { return }
    try await QRWaitCommand.wait(for: offer.ticket, device, settings, output)
  }

  private func show(_ offer: QROffer, _ output: Output) throws(CommandFailure) {
    let style: TerminalStyle = isatty(STDOUT_FILENO) == 1 ? .coloured : .plain
    let drawing: String
    let image: [UInt8]
    let vector: String
    do throws(QRCodeError) {
      let matrix = try QRMatrix(encoding: offer.payload)
      drawing = draw ? try matrix.terminalText(style: style) : ""
      image = png == nil ? [] : try matrix.png()
      vector = svg == nil ? "" : try matrix.svg()
    } catch {
      throw CommandFailure(.invalid, "the code cannot be drawn: \(error)")
    }
    if let png { try OutputFile.write(image, to: png) }
    if let svg { try OutputFile.write(Array(vector.utf8), to: svg) }

    var text = drawing
    text += "Scan the code with a phone that is signed in, or open \(offer.verificationURI)\n"
    text += "and type \(offer.userCode) there. It stands for \(Output.seconds(offer.expiresIn)).\n"
    if !offer.checkCode.isEmpty { text += "The phone will ask for the number \(offer.checkCode).\n" }
    output.result(text, JSONValue(offer))
  }
}

extension QRSignInPurpose: ExpressibleByArgument {}
