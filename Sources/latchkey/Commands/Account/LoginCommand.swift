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

      Instead of the password: --send-code sends a code to the address and --code signs in by it; --custom-id takes a \
      name that an app made, with its secret where the password goes; --pattern takes the pattern that `latchkey \
      pattern` enrolled on this device, there as well; --device-key asks for nothing on a device that a QR code bound to \
      the account.
      """,
    examples: [
      "latchkey login ada@example.com --password-file password --on-conflict merge",
      "latchkey login ada@example.com --profile tv --send-code",
      "latchkey login ada@example.com --profile tv --code $CODE",
    ]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var password: PasswordOption

  @Argument(help: "The account's e-mail address, phone number or user name.")
  var identifier: String?

  @Flag(help: "Send a one-time code to the address, and sign nobody in yet.")
  var sendCode = false

  @Option(help: "The code that was sent.")
  var code: String?

  @Flag(help: "The account is a name that an app made for itself; its secret takes the password's place.")
  var customID = false

  @Flag(help: "The pattern or PIN of this device takes the password's place; the account need not be said.")
  var pattern = false

  @Flag(help: "This device's key alone, for a device that is bound to an account.")
  var deviceKey = false

  @Option(help: "report, merge or switch; else report.")
  var onConflict: ConflictChoice?

  @Option(help: "The ticket that an earlier login reported.")
  var ticket: String?

  @Option(help: "A name that you recognise the device by; else latchkey command line.")
  var label: String?

  func validate() throws {
    guard [identifier != nil, ticket != nil, pattern, deviceKey].count(where: { $0 }) == 1 else {
      throw ValidationError("say one of an account, --ticket, --pattern and --device-key")
    }
    guard [sendCode, code != nil, customID].count(where: { $0 }) <= 1 else {
      throw ValidationError("say at most one of --send-code, --code and --custom-id")
    }
    if identifier == nil, sendCode || code != nil || customID { throw ValidationError("say the account") }
    if ticket != nil, onConflict == nil || onConflict == .report {
      throw ValidationError("--ticket needs --on-conflict merge or switch")
    }
    let withoutPassword = [
      ("--send-code", sendCode), ("--code", code != nil), ("--device-key", deviceKey), ("--ticket", ticket != nil),
    ].first { $0.1 }
    if let withoutPassword, password.passwordFile != nil {
      throw ValidationError("--password-file does not go with \(withoutPassword.0), which needs no password")
    }
    // Nobody is signed in by it yet.
    for (name, isSaid) in [("--on-conflict", onConflict != nil), ("--label", label != nil)] where sendCode && isSaid {
      throw ValidationError("\(name) does not go with --send-code; say it with --code")
    }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    if sendCode {
      let sent = try await device.sendCode(to: identifier ?? "")
      output.result(
        "If an account has this address, a code is on its way: "
          + settings.command("login \(Settings.quoted(identifier ?? "")) --code CODE"),
        [
          "expires_in": .integer(sent.expiresIn.components.seconds),
          "resend_after": .integer(sent.resendAfter.components.seconds),
          "attempts_left": .integer(Int64(sent.attemptsLeft)),
        ])
      return
    }
    var outcome: SignInOutcome
    var chosen = onConflict
    let (onConflict, label) = (onConflict ?? .report, label ?? "latchkey command line")
    if let ticket {
      outcome = try await device.choose(onConflict, linkTicket: ticket, deviceLabel: label)
    } else {
      outcome = try await device.signIn(with: try credential(), onConflict: onConflict, deviceLabel: label)
    }
    if case .conflict(let conflict) = outcome, self.onConflict == nil, Prompt.isPossible(output) {
      output.progress(Self.sentence(conflict))
      let choices = conflict.choices.filter { $0 != .report }.map(\.rawValue)
      guard let typed = Prompt.choice("What becomes of the guest's data?", among: choices),
        let choice = ConflictChoice(rawValue: typed)
      else { throw CommandFailure(.undecided, "nothing was chosen, and nobody is signed in") }
      chosen = choice
      outcome = try await device.choose(choice, linkTicket: conflict.linkTicket, deviceLabel: label)
    }
    switch outcome {
    case .signedIn(let signIn):
      if let migration = signIn.change?.migrationID { try ProfileNote.merge.keep(migration, in: settings) }
      // Without a guest there is nothing that was left behind.
      let left = chosen == .switch && signIn.change?.previousSubject != nil
      let hint =
        left ? " The guest's data stays with the guest; to take it along: \(settings.command("migrate plan"))" : ""
      output.result(Self.sentence(signIn, settings) + hint, JSONValue(signIn))
    case .conflict(let conflict):
      output.result(
        Self.sentence(conflict) + "\n" + Self.commands(conflict, settings), JSONValue(conflict))
      throw ExitCode(CommandFailure.Status.undecided.rawValue)
    }
  }

  private func credential() throws -> SignInCredential {
    let identifier = identifier ?? ""
    if let code { return .code(identifier: identifier, code: code) }
    if deviceKey { return .deviceKey }
    if pattern { return .pattern(try password.password()) }
    let secret = try password.password()
    return customID
      ? .customSecret(id: identifier, secret: secret) : .password(identifier: identifier, password: secret)
  }

  private static func sentence(_ signIn: SignIn, _ settings: Settings) -> String {
    let name = TerminalText.line(signIn.profile.name)
    var text = name.isEmpty ? "You are signed in." : "You are signed in as \(name)."
    guard let change = signIn.change else { return text }
    if change.promoted { text += " The guest of this device became the account." }
    if change.migrationID != nil {
      text += " The guest's data is on its way into the account: \(settings.command("migrate watch"))"
    } else if change.migrationPending {
      text += " The guest's data will follow as soon as the migrator can be reached; log in again to watch it."
    }
    return text
  }

  private static func sentence(_ conflict: SignInConflict) -> String {
    let rows = conflict.guestRows.map { "\($0.count) in \($0.name)" }.joined(separator: ", ")
    return """
      \(conflict.existingMask) has an account already, and the guest of this device has data: \
      \(rows.isEmpty ? "none in the built-in store" : rows).
      Nobody is signed in yet. Choose within \(Output.seconds(conflict.expiresIn)).
      """
  }

  /// A line for each choice, to be pasted.
  private static func commands(_ conflict: SignInConflict, _ settings: Settings) -> String {
    conflict.choices.filter { $0 != .report }.map { choice in
      "  " + settings.command("login --ticket \(Settings.quoted(conflict.linkTicket)) --on-conflict \(choice.rawValue)")
    }.joined(separator: "\n")
  }
}

extension ConflictChoice: ExpressibleByArgument {}
