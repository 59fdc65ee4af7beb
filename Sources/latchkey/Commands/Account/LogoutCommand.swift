import ArgumentParser
import Cryptography
import LatchkeyClient

struct LogoutCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "logout",
    abstract: "Sign out.",
    examples: ["latchkey logout --then-guest"]
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: "Which sessions end: local (this one), others (all but this one) or global (all).")
  var scope: SignOutScope = .local

  @Flag(help: "Go on as this device's guest, in the same step.")
  var thenGuest = false

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let guest = try await device.signOut(scope, thenGuest: thenGuest)
    let text =
      switch scope {
      case .local: "You are signed out."
      case .others: "Your other sessions are ended."
      case .global: "You are signed out everywhere."
      }
    output.result(
      guest == nil ? text : text + " This device goes on as a guest.",
      ["session": guest.map { JSONValue($0) } ?? .null]
    )
  }
}

extension SignOutScope: ExpressibleByArgument {}
