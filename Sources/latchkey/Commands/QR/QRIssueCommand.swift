import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRIssueCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "issue",
    abstract: "Show a code for a phone to scan.",
    examples: [
      "latchkey qr issue --profile desktop",
      #"latchkey qr issue --purpose confirm-action --action-text "Pay the shop""#,
    ]
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: "What the phone will say is asking.")
  var label = "latchkey command line"

  @Option(help: "login, bind-device, transfer-guest or confirm-action.")
  var purpose: QRSignInPurpose = .login

  @Option(help: "Space-separated scopes to ask for; none asks for the usual ones.")
  var scope = ""

  @Option(help: "What is to be agreed to, for confirm-action: one line.")
  var actionText: String?

  @Option(help: "The amount of the action, such as 129.90.")
  var amount = ""

  @Option(help: "The currency of the amount, such as EUR.")
  var currency = ""

  @Option(help: "Your own name for the action, such as an order number.")
  var reference = ""

  @Flag(help: "Wait, and show a new code whenever one expires, for half an hour without a scan.")
  var again = false

  @OptionGroup var picture: QRPicture

  @Flag(help: "Wait for the sign-in, as qr wait does.")
  var wait = false

  func validate() throws {
    guard (purpose == .confirmAction) == (actionText != nil) else {
      throw ValidationError("--action-text goes with --purpose confirm-action")
    }
    for (name, value) in [("--amount", amount), ("--currency", currency), ("--reference", reference)]
    where actionText == nil && !value.isEmpty {
      throw ValidationError("\(name) goes with --action-text")
    }
    if wait, again { throw ValidationError("--again waits already: say it or --wait") }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let request = QRCodeRequest(
      initiator: QRInitiator(label: label, platform: "cli", app: "latchkey"),
      purpose: purpose,
      scope: scope,
      action: actionText.map { QRAction(text: $0, amount: amount, currency: currency, reference: reference) }
    )
    let countdown = QRCountdown(output)
    guard again else {
      let offer = try await device.issueQRCode(request)
      try keepAndShow(offer, settings, output)
      countdown.begin(offer.expiresIn)
      if wait { try await QRWaitCommand.wait(for: offer.ticket, device, settings, output, countdown) }
      return
    }
    let end = try await countdown.during {
      try await device.showQRCodes(request) { offer in
        try keepAndShow(offer, settings, output)
        countdown.begin(offer.expiresIn)
      } changed: { progress in
        countdown.tell(progress)
      }
    }
    try QRWaitCommand.finish(end, settings, output)
  }

  private func keepAndShow(_ offer: QROffer, _ settings: Settings, _ output: Output) throws {
    try ProfileNote.qrTicket.keep(offer.ticket.encoded(), in: settings)
    try show(offer, output)
  }

  private func show(_ offer: QROffer, _ output: Output) throws(CommandFailure) {
    output.drawing(try picture.show(offer.payload))
    var text = "Scan the code with a phone that is signed in, within \(Output.seconds(offer.expiresIn)).\n"
    text += "No camera? Enter \(offer.userCode) in the phone's app.\n"
    if !offer.checkCode.isEmpty { text += "If the phone asks for a number: \(offer.checkCode)\n" }
    output.result(text, JSONValue(offer))
  }
}

extension QRSignInPurpose: ExpressibleByArgument {}
