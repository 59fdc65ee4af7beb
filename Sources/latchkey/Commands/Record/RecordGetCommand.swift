import ArgumentParser
import Cryptography
import LatchkeyClient

struct RecordGetCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "get", abstract: "Show one record, as a line of JSON.",
    examples: ["latchkey record get cart poster-12"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument var collection: String
  @Argument var key: String

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let record = JSONValue(try await device.record(collection: collection, key: key))
    output.verbatim(record.line, record)
  }
}
