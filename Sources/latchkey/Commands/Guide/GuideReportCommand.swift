import ArgumentParser
import Cryptography
import LatchkeyClient

struct GuideReportCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "report", abstract: "Say what became of a guide's step.",
    examples: ["latchkey guide report first-steps search done"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument var guide: String
  @Argument var step: String
  @Argument(help: "shown, done or skipped") var outcome: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    guard let outcome = GuideOutcome(rawValue: outcome) else {
      throw CommandFailure.usage("the outcome is shown, done or skipped")
    }
    let before = try await device.guide(guide)
    let after = try await device.reportStep(step, of: guide, outcome, expectedRevision: before.revision)
    output.result("\(after.status.rawValue), revision \(after.revision)", JSONValue(after))
  }
}
