import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionShowCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "show",
    abstract: "Say who uses this profile, without asking the service."
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    switch try await device.authState() {
    case .unknown: output.result("Nobody is signed in.", ["state": "unknown"])
    case .guest(let session):
      output.result("A guest uses this profile.", ["state": "guest", "session": JSONValue(session)])
    case .user(let session):
      output.result("An account uses this profile.", ["state": "user", "session": JSONValue(session)])
    }
  }
}
