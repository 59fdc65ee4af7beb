import ArgumentParser
import Cryptography
import LatchkeyClient

struct LoginCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "login",
    abstract: "Sign in to an account.",
    discussion: """
      When a guest with data uses this device, --on-conflict says what becomes of the data: report asks back (exit \
      status 2, with a ticket), merge moves it into the account, switch leaves it with the guest. A ticket from report \
      chooses without the password: latchkey login --ticket TICKET --on-conflict merge
      """
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var password: PasswordOption

  @Argument(help: "The account's e-mail address, phone number or user name.")
  var identifier: String?

  @Option(help: "report, merge or switch.")
  var onConflict: ConflictChoice = .report

  @Option(help: "The ticket that an earlier login reported.")
  var ticket: String?

  @Option(help: "A name that you recognise the device by.")
  var label = "latchkey command line"

  func validate() throws {
    guard (identifier == nil) != (ticket == nil) else {
      throw ValidationError("say either an account or --ticket")
    }
    if ticket != nil, onConflict == .report {
      throw ValidationError("--ticket needs --on-conflict merge or switch")
    }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let outcome: SignInOutcome
    if let ticket {
      outcome = try await device.choose(onConflict, linkTicket: ticket, deviceLabel: label)
    } else {
      outcome = try await device.signIn(
        identifier: identifier ?? "",
        password: try password.password(),
        onConflict: onConflict,
        deviceLabel: label
      )
    }
    switch outcome {
    case .signedIn(let signIn):
      if let migration = signIn.change?.migrationID { try ProfileNote.merge.keep(migration, in: settings) }
      output.result(Self.sentence(signIn), JSONValue(signIn))
    case .conflict(let conflict):
      output.result(Self.sentence(conflict), JSONValue(conflict))
      throw ExitCode(CommandFailure.Status.undecided.rawValue)
    }
  }

  private static func sentence(_ signIn: SignIn) -> String {
    let name = signIn.profile.name
    var text = name.isEmpty ? "You are signed in." : "You are signed in as \(name)."
    guard let change = signIn.change else { return text }
    if change.promoted { text += " The guest of this device became the account." }
    if change.migrationID != nil {
      text += " The guest's data is on its way into the account: latchkey migrate watch"
    } else if change.migrationPending {
      text += " The guest's data will follow as soon as the migrator can be reached; log in again to watch it."
    }
    return text
  }

  private static func sentence(_ conflict: SignInConflict) -> String {
    let rows = conflict.guestRows.map { "\($0.count) in \($0.name)" }.joined(separator: ", ")
    let choices = conflict.choices.map(\.rawValue).joined(separator: " or ")
    return """
      \(conflict.existingMask) has an account already, and the guest of this device has data: \
      \(rows.isEmpty ? "none in the built-in store" : rows).
      Nobody is signed in yet. Choose \(choices) within \(Output.seconds(conflict.expiresIn)):
        latchkey login --ticket \(conflict.linkTicket) --on-conflict merge
      """
  }
}

extension ConflictChoice: ExpressibleByArgument {}
