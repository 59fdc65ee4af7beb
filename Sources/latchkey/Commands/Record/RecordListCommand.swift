import ArgumentParser
import Cryptography
import LatchkeyClient

struct RecordListCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "Show a collection, newest first, one record a line of JSON.",
    examples: ["latchkey record list cart --limit 5"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument var collection: String

  @Option(help: "At most so many; 0 shows all.")
  var limit = 20

  func validate() throws {
    guard limit >= 0 else { throw ValidationError("--limit must not be negative") }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    var shown: [JSONValue] = []
    var next: String?
    var count = 0
    repeat {
      let wanted = limit > 0 ? min(limit - count, 500) : 500
      let page = try await device.records(collection: collection, pageSize: wanted, after: next)
      for record in page.records {
        let json = JSONValue(record)
        if options.json { shown.append(json) } else { output.progress(json.line) }
      }
      count += page.records.count
      next = page.next
    } while next != nil && (limit <= 0 || count < limit)
    output.result("", ["records": .array(shown), "more": .bool(next != nil)])
  }
}
