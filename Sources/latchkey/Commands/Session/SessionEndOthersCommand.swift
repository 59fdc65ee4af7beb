import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionEndOthersCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "end-others", abstract: "End all of your sessions but this one.",
    examples: ["latchkey session end-others"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let ended = try await device.endOtherSessions()
    output.result("Sessions ended: \(ended).", ["sessions_ended": .integer(ended)])
  }
}
