import ArgumentParser
import Cryptography
import LatchkeyClient

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

  @OptionGroup var picture: QRPicture

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
    var text = try picture.show(offer.payload)
    text += "Scan the code with a phone that is signed in, or open \(offer.verificationURI)\n"
    text += "and type \(offer.userCode) there. It stands for \(Output.seconds(offer.expiresIn)).\n"
    if !offer.checkCode.isEmpty { text += "The phone will ask for the number \(offer.checkCode).\n" }
    output.result(text, JSONValue(offer))
  }
}

extension QRSignInPurpose: ExpressibleByArgument {}
