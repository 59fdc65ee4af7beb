import ArgumentParser
import Cryptography
import LatchkeyClient

struct AccountShowCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "show", abstract: "Show your profile.",
    examples: ["latchkey account show"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let account = try await device.accountProfile()
    let name = TerminalText.line(account.profile.name)
    output.result(
      """
      \(name.isEmpty ? "Your account has no name." : "You are \(name).") \
      \(account.hasPassword ? "It has a password." : "It has no password.")
      """,
      [
        "sub": .string(account.subject.description),
        "name": .string(account.profile.name),
        "avatar_url": .string(account.profile.avatarURL),
        "locale": .string(account.profile.locale),
        "has_password": .bool(account.hasPassword),
        "created_at": account.createdAt.map { .string(RFC3339.text($0)) } ?? .null,
      ])
  }
}
