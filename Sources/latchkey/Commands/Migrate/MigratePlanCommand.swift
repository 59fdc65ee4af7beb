import ArgumentParser
import Cryptography
import LatchkeyClient

struct MigratePlanCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "plan",
    abstract: "Say what a merge would do, without doing it.",
    examples: ["latchkey migrate plan --policy cart=sum --policy history=ask"]
  )

  @OptionGroup var options: DeviceOptions

  @Option(
    help: ArgumentHelp(
      "Decide conflicts of a collection otherwise than it usually does. Policies: \(Self.policyNames).",
      valueName: "collection=policy"
    )
  )
  var policy: [String] = []

  private static let policyNames = MergePolicy.allCases.map(\.rawValue).joined(separator: ", ")

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let plan = try await device.planMerge(policies: try policies())
    let note: JSONValue = ["plan_id": .string(plan.id), "digest": .string(plan.digest)]
    try ProfileNote.mergePlan.keep(note.encoded(), in: settings)
    output.result(Self.text(plan, settings), JSONValue(plan))
  }

  private func policies() throws(CommandFailure) -> [String: MergePolicy] {
    var policies: [String: MergePolicy] = [:]
    for text in policy {
      let parts = text.split(separator: "=", maxSplits: 1)
      guard parts.count == 2, let policy = MergePolicy(rawValue: String(parts[1])) else {
        throw .usage("--policy \(text): write collection=policy, with one of \(Self.policyNames)")
      }
      guard policies[String(parts[0])] == nil else { throw .usage("--policy names \(parts[0]) twice") }
      policies[String(parts[0])] = policy
    }
    return policies
  }

  private static func text(_ plan: MergePlan, _ settings: Settings) -> String {
    let rows = plan.collections.map { collection in
      [
        collection.name, collection.policy?.rawValue ?? "?", "\(collection.guestRows)", "\(collection.accountRows)",
        "\(collection.conflicts)", "\(collection.refused)",
      ]
    }
    return Output.table(["collection", "policy", "guest", "account", "in both", "refused"], rows)
      + "\nThe plan stands for \(Output.seconds(plan.expiresIn)): \(settings.command("migrate start"))"
  }
}
