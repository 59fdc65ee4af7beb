import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionEndCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "end", abstract: "End one of your sessions.",
    examples: ["latchkey session end $SESSION"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument(help: "Its id, as latchkey session list shows it.") var session: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let ended = try await device.endSession(session)
    output.result(ended ? "Ended." : "It had ended before.", ["ended": .bool(ended)])
  }
}
