import ArgumentParser
import Cryptography
import LatchkeyClient

struct MigrateStatusCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Say where a merge stands.",
    examples: ["latchkey migrate status"]
  )

  @OptionGroup var options: DeviceOptions

  @Argument(help: "The merge, when it is not this profile's last.")
  var id: String?

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let merge = try await device.merge(id: try Self.id(id, in: settings))
    output.result(Self.text(merge), JSONValue(merge))
  }

  static func id(_ named: String?, in settings: Settings) throws(CommandFailure) -> String {
    if let named { return named }
    guard let last = try ProfileNote.merge.text(in: settings) else {
      throw CommandFailure(.usage, "this profile has started no merge", hint: "`migrate start`")
    }
    return last
  }

  static func text(_ merge: Merge) -> String {
    switch merge.state {
    case .queued: return "The merge waits for its turn."
    case .running: return "\(merge.step): \(merge.done) of \(merge.total)"
    case .undoing: return "The merge is being undone: \(merge.failure)"
    case .undone: return "The merge was taken back."
    case .failed: return "The merge failed: \(merge.failure). Nothing of the guest's was lost."
    case .done:
      let rows = merge.report.map { collection in
        [
          collection.name, collection.policy?.rawValue ?? "?", "\(collection.moved)", "\(collection.kept)",
          "\(collection.replaced)", "\(collection.combined)", "\(collection.refused)", "\(collection.asked)",
          "\(collection.accountRows)",
        ]
      }
      let headings = ["collection", "policy", "moved", "kept", "replaced", "summed", "refused", "asked", "now"]
      let undone = merge.failure.isEmpty ? "" : "\nIt could not be taken back: \(merge.failure)"
      return "The merge is done.\n" + Output.table(headings, rows) + undone
    }
  }
}
