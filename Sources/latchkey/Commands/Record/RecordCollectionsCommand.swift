import ArgumentParser
import Cryptography
import LatchkeyClient

struct RecordCollectionsCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "collections",
    abstract: "Show which collections there are, how large they are, and how a merge decides them.",
    examples: ["latchkey record collections"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let collections = try await device.recordCollections()
    let rows = collections.map { [$0.name, $0.policy?.rawValue ?? "?", "\($0.count)"] }
    output.result(
      Output.table(["collection", "policy", "records"], rows, nothing: "No records."),
      [
        "collections": .array(
          collections.map { collection in
            [
              "name": .string(collection.name),
              "count": .integer(collection.count),
              "policy": collection.policy.map { .string($0.rawValue) } ?? .null,
            ]
          }
        )
      ]
    )
  }
}
