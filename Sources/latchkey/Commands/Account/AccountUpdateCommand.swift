import ArgumentParser
import Cryptography
import LatchkeyClient

struct AccountUpdateCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "update", abstract: "Edit your profile. What is not said stays; what is said empty is emptied.",
    examples: ["latchkey account update --name Ada --locale en"]
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: "What the account is called, at most 10 characters.")
  var name: String?

  @Option(help: "An https address of a picture.")
  var avatarURL: String?

  @Option(help: "A language tag, such as en or pt-BR.")
  var locale: String?

  func validate() throws {
    if name == nil, avatarURL == nil, locale == nil { throw ValidationError("say --name, --avatar-url or --locale") }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let profile = try await device.updateProfile(name: name, avatarURL: avatarURL, locale: locale)
    output.result(
      "Your profile is changed.",
      [
        "name": .string(profile.name), "avatar_url": .string(profile.avatarURL), "locale": .string(profile.locale),
      ])
  }
}
