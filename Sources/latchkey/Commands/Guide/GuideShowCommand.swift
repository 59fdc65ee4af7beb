import ArgumentParser
import Cryptography
import LatchkeyClient

struct GuideShowCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "show", abstract: "Show a guide's steps and which of them is next.",
    examples: ["latchkey guide show first-steps"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument var guide: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let guide = try await device.guide(guide)
    let steps = guide.steps.enumerated().map { index, step in
      [index == guide.cursor ? "> \(step.id)" : "  \(step.id)", step.page, step.target, step.messageKey]
    }
    output.result(
      "\(guide.status.rawValue), revision \(guide.revision)\n"
        + Output.table(["step", "page", "target", "message"], steps, nothing: "No steps."),
      JSONValue(guide))
  }
}
