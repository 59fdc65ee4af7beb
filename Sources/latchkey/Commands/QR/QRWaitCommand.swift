import ArgumentParser
import Cryptography
import LatchkeyClient

struct QRWaitCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "wait",
    abstract: "Wait until the code that this profile showed has signed it in.",
    examples: ["latchkey qr wait --profile desktop"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let ticket = try Self.ticket(in: settings)
    try await Self.wait(for: ticket, device, settings, output, QRCountdown(output))
  }

  static func ticket(in settings: Settings) throws(CommandFailure) -> QRTicket {
    guard let bytes = try ProfileNote.qrTicket.bytes(in: settings) else {
      throw CommandFailure(.usage, "this profile shows no code", hint: "`qr issue`")
    }
    guard let ticket = QRTicket(bytes) else { throw CommandFailure(.file, "the profile's QR ticket is damaged") }
    return ticket
  }

  static func wait(
    for ticket: QRTicket,
    _ device: DeviceClient,
    _ settings: Settings,
    _ output: Output,
    _ countdown: QRCountdown
  ) async throws {
    let end = try await countdown.during { try await device.awaitQRSignIn(ticket) { countdown.tell($0) } }
    try finish(end, settings, output)
  }

  /// Shows how it ended, and fails unless it is what was wanted.
  static func finish(_ end: QRProgress, _ settings: Settings, _ output: Output) throws {
    // Once the tokens are kept, or never will be, the ticket is of no more use.
    try ProfileNote.qrTicket.remove(in: settings)
    output.result(sentence(end, settings), JSONValue(end))
    switch end {
    case .signedIn, .confirmed: return
    default: break
    }
    throw ExitCode(CommandFailure.Status.undecided.rawValue)
  }

  static func sentence(_ progress: QRProgress, _ settings: Settings) -> String {
    switch progress {
    case .pending: "Nobody has scanned the code yet."
    case .scanned(let mask): "Scanned by \(TerminalText.line(mask)), not yet agreed to."
    case .agreed(let mask): "Agreed to by \(TerminalText.line(mask)), not yet collected: \(settings.command("qr wait"))"
    case .signedIn(let signIn):
      signIn.profile.name.isEmpty
        ? "You are signed in." : "You are signed in as \(TerminalText.line(signIn.profile.name))."
    case .confirmed(let confirmation): "It was agreed to. The service's word for it:\n\(confirmation.jws)"
    case .denied: "The person with the phone refused, or typed a wrong number."
    case .expired: "The code has expired."
    case .cancelled: "The code was cancelled."
    case .consumed: "The sign-in was collected before."
    }
  }
}
