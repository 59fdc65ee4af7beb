import ArgumentParser
import Cryptography
import LatchkeyClient

struct GuideListCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "Show the guides there are.",
    examples: ["latchkey guide list"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let guides = try await device.guides()
    output.result(
      Output.table(
        ["guide", "version", "status"], guides.map { [$0.guideID, "\($0.version)", $0.status.rawValue] },
        nothing: "No guides."),
      ["guides": .array(guides.map { JSONValue($0) })])
  }
}

extension JSONValue {
  init(_ guide: GuideView) {
    self = [
      "guide_id": .string(guide.guideID),
      "version": .integer(guide.version),
      "status": .string(guide.status.rawValue),
      "cursor": .integer(Int64(guide.cursor)),
      "revision": .integer(guide.revision),
      "steps": .array(
        guide.steps.map { step in
          [
            "step_id": .string(step.id),
            "page": .string(step.page),
            "target": .string(step.target),
            "message_key": .string(step.messageKey),
            "reverse": .bool(step.isReversed),
          ]
        }),
    ]
  }
}
