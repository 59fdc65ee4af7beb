import ArgumentParser
import Cryptography
import LatchkeyClient

struct MigrateStartCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "start",
    abstract: "Start the merge that was planned last, or the one that is named.",
    examples: ["latchkey migrate start"]
  )

  @OptionGroup var options: DeviceOptions

  @Option(help: ArgumentHelp("The plan, when it is not this profile's last.", valueName: "id"))
  var planID: String?

  @Option(help: "The plan's digest; goes with --plan-id.")
  var digest: String?

  @Option(help: "Repeats with the same key start one merge only; none takes the plan's id.")
  var idempotencyKey: String?

  func validate() throws {
    guard (planID == nil) == (digest == nil) else { throw ValidationError("--plan-id and --digest go together") }
  }

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let (plan, digest) = try plan(in: settings)
    let merge = try await device.startMerge(
      planID: plan,
      digest: digest,
      idempotencyKey: idempotencyKey ?? plan
    )
    try ProfileNote.merge.keep(merge, in: settings)
    output.result("The merge has started: \(settings.command("migrate watch"))", ["migration_id": .string(merge)])
  }

  private func plan(in settings: Settings) throws(CommandFailure) -> (String, String) {
    if let planID, let digest { return (planID, digest) }
    guard let bytes = try ProfileNote.mergePlan.bytes(in: settings) else {
      throw CommandFailure(.usage, "nothing is planned", hint: "`migrate plan`")
    }
    guard let note = try? JSONValue(parsing: bytes), let plan = note["plan_id"]?.string,
      let digest = note["digest"]?.string
    else { throw CommandFailure(.file, "the profile's plan is damaged", hint: "`migrate plan`") }
    return (plan, digest)
  }
}
