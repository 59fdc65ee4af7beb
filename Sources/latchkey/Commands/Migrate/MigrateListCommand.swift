import ArgumentParser
import Cryptography
import LatchkeyClient

struct MigrateListCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "Show the merges into your account, newest first.",
    examples: ["latchkey migrate list"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    var merges: [Merge] = []
    var next: String?
    repeat {
      let page = try await device.merges(after: next)
      merges += page.merges
      next = page.next
    } while next != nil
    let rows = merges.map { merge in
      [
        merge.id, merge.state.rawValue, "\(merge.done)", merge.createdAt.map { Ago.text($0) } ?? "",
        merge.undoUntil.map { Ago.text($0) } ?? "",
      ]
    }
    output.result(
      Output.table(["merge", "state", "records", "begun", "can be taken back"], rows, nothing: "No merges."),
      ["merges": .array(merges.map { JSONValue($0) })])
  }
}
