import ArgumentParser
import Cryptography
import LatchkeyClient

struct AccountRecoverCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "recover",
    abstract: "Set a new password with a code that is sent to a verified address.",
    discussion: "Without --code a code is sent. All sessions end, unless --keep-others says otherwise.",
    examples: [
      "latchkey account recover ada@example.com",
      "latchkey account recover ada@example.com --code $CODE --new-password-file new",
    ]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var new: NewPasswordOption

  @Argument(help: "A verified e-mail address or phone number of the account.")
  var address: String

  @Option(help: "The code that was sent.")
  var code: String?

  func validate() throws {
    guard code == nil else { return }
    if new.newPasswordFile != nil { throw ValidationError("--new-password-file goes with --code") }
    if new.keepOthers { throw ValidationError("--keep-others goes with --code") }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    guard let code else {
      let sent = try await device.startRecovery(of: address)
      return output.result(
        "If an account has verified this address, a code is on its way: "
          + settings.command("account recover \(Settings.quoted(address)) --code CODE"),
        [
          "expires_in": .integer(sent.expiresIn.components.seconds),
          "resend_after": .integer(sent.resendAfter.components.seconds),
          "attempts_left": .integer(Int64(sent.attemptsLeft)),
        ])
    }
    let ended = try await device.finishRecovery(
      of: address, code: code, newPassword: try new.password(), endingSessions: !new.keepOthers)
    output.result(
      "The password is set; sign in with it: \(settings.command("login \(Settings.quoted(address))"))",
      ["sessions_ended": .integer(Int64(ended))])
  }
}
