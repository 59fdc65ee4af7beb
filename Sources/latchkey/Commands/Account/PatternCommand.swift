import ArgumentParser
import Cryptography
import LatchkeyClient

struct PatternCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "pattern",
    abstract: "Let a pattern or PIN sign you in on this device.",
    discussion: """
      The pattern is read where a password would be. It works on this device alone, and not before a sign-in there: \
      latchkey login --pattern
      """,
    examples: [
      "latchkey pattern --password-file pattern", "latchkey logout", "latchkey login --pattern --password-file pattern",
    ]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var password: PasswordOption

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    try await device.enrolPattern(try password.password(isNew: true))
    output.result("The pattern signs you in on this device: \(settings.command("login --pattern"))", ["enrolled": true])
  }
}
