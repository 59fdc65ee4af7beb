import ArgumentParser
import Cryptography
import LatchkeyClient

struct RecordDeleteCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "delete", abstract: "Delete one record.",
    examples: ["latchkey record delete cart poster-12"]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var consent: ConsentOptions
  @Argument var collection: String
  @Argument var key: String

  @Option(help: "Delete it only if it still has this revision.")
  var expectedRevision: Int64 = 0

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    try consent.require("Delete this record?", output)
    let deleted = try await device.deleteRecord(
      collection: collection,
      key: key,
      expectedRevision: expectedRevision
    )
    output.result(deleted ? "Deleted." : "There was no such record.", ["deleted": .bool(deleted)])
  }
}
