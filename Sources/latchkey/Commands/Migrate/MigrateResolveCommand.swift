import ArgumentParser
import Cryptography
import LatchkeyClient

struct MigrateResolveCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "resolve",
    abstract: "Decide about a record that a merge set aside.",
    examples: ["latchkey migrate resolve cart poster-12 keep-source"]
  )

  @OptionGroup var options: DeviceOptions

  @Argument var collection: String
  @Argument var key: String

  @Argument(
    help: "keep-target (drops the guest's), keep-source, newest, union-by-key, sum, max or append (keeps both)."
  )
  var policy: String

  @Option(help: ArgumentHelp("The merge, when it is not this profile's last.", valueName: "id"))
  var merge: String?

  @Option(help: "Decide only while the account's record has this revision.")
  var expectedRevision: Int64 = 0

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    guard let policy = MergePolicy(rawValue: policy), policy != .ask else {
      throw CommandFailure.usage("\(policy) is not a policy that decides")
    }
    let id = try MigrateStatusCommand.id(merge, in: settings)
    let isResolved = try await device.resolveConflict(
      ofMerge: id, collection: collection, key: key, by: policy, expectedRevision: expectedRevision)
    output.result(
      isResolved ? "Decided." : "There is no such conflict, or none any more.", ["resolved": .bool(isResolved)])
  }
}
