import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionTokenCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "token",
    abstract: "Print this profile's access token, for a call made with another tool.",
    discussion: "Whoever has the token acts as you until it expires.",
    examples: ["TOKEN=$(latchkey session token)"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let token = try await device.accessToken()
    output.verbatim(token, ["access_token": .string(token)])
  }
}
