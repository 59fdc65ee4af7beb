import ArgumentParser
import Cryptography
import LatchkeyClient

struct AccountPasswordCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "password",
    abstract: "Change your password, or set the first one, or remove it.",
    discussion: """
      The password that the account has is asked for first, unless --first says that it has none: then the sign-in has \
      to be a moment ago. Other sessions end, unless --keep-others says otherwise.
      """,
    examples: ["latchkey account password --password-file password --new-password-file new"]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var password: PasswordOption
  @OptionGroup var new: NewPasswordOption

  @Flag(help: "The account has no password yet.")
  var first = false

  @Flag(help: "Take the password away; something else must lead to the account.")
  var remove = false

  func validate() throws {
    if first, remove { throw ValidationError("say one of --first and --remove") }
    if first, password.passwordFile != nil { throw ValidationError("--password-file does not go with --first") }
    if remove, new.newPasswordFile != nil { throw ValidationError("--new-password-file does not go with --remove") }
    if password.passwordFile == "-", new.newPasswordFile == "-" {
      throw ValidationError("only one of the passwords can come from standard input")
    }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let ended: Int
    let done: String
    if first {
      ended = try await device.setPassword(try new.password(), endingOthers: !new.keepOthers)
      done = "The password is set."
    } else if remove {
      ended = try await device.removePassword(try password.password(), endingOthers: !new.keepOthers)
      done = "The password is removed."
    } else {
      let old = try password.password()
      ended = try await device.changePassword(from: old, to: try new.password(), endingOthers: !new.keepOthers)
      done = "The password is changed."
    }
    output.result("\(done) \(NewPasswordOption.sentence(ended))", ["sessions_ended": .integer(Int64(ended))])
  }
}
