import ArgumentParser
import Cryptography
import LatchkeyClient

struct GuideResetCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "reset", abstract: "Begin a guide anew.",
    examples: ["latchkey guide reset first-steps"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument var guide: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    try await device.resetGuide(guide)
    output.result("Begun anew.", ["guide_id": .string(guide)])
  }
}
