import ArgumentParser
import Cryptography
import LatchkeyClient

import enum LatchkeyModel.Base64URL

struct MigrateConflictsCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "conflicts",
    abstract: "Show what a merge set aside and nobody has decided about.",
    examples: ["latchkey migrate conflicts"]
  )

  @OptionGroup var options: DeviceOptions

  @Argument(help: "The merge, when it is not this profile's last.")
  var id: String?

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let id = try MigrateStatusCommand.id(id, in: settings)
    var conflicts: [MergeConflict] = []
    var next: String?
    repeat {
      let page = try await device.conflicts(ofMerge: id, after: next)
      conflicts += page.conflicts
      next = page.next
    } while next != nil
    let rows = conflicts.map { conflict in
      [
        conflict.collection, conflict.key, conflict.reason?.rawValue ?? "?", Self.text(conflict.guest),
        conflict.account.map { Self.text($0) } ?? "-",
      ]
    }
    output.result(
      Output.table(["collection", "key", "why", "guest's", "account's"], rows, nothing: "No conflicts."),
      ["conflicts": .array(conflicts.map { Self.json($0) })])
  }

  /// Values are the app's: only their length is shown.
  private static func text(_ row: MergeConflict.Row) -> String {
    "\(row.number), \(row.value.count) bytes, \(row.updatedAt.map { Ago.text($0) } ?? "?")"
  }

  private static func json(_ conflict: MergeConflict) -> JSONValue {
    [
      "collection": .string(conflict.collection),
      "key": .string(conflict.key),
      "reason": conflict.reason.map { .string($0.rawValue) } ?? .null,
      "guest": json(conflict.guest),
      "account": conflict.account.map { json($0) } ?? .null,
    ]
  }

  private static func json(_ row: MergeConflict.Row) -> JSONValue {
    [
      "value_base64url": .string(Base64URL.encode(row.value)),
      "number": .integer(row.number),
      "updated_at": row.updatedAt.map { .string(RFC3339.text($0)) } ?? .null,
      "revision": .integer(row.revision),
    ]
  }
}
