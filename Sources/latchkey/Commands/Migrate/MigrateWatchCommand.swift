import ArgumentParser
import Cryptography
import LatchkeyClient

struct MigrateWatchCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "watch",
    abstract: "Follow a merge to its end.",
    examples: ["latchkey migrate watch"]
  )

  @OptionGroup var options: DeviceOptions

  @Argument(help: "The merge, when it is not this profile's last.")
  var id: String?

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let id = try MigrateStatusCommand.id(id, in: settings)
    let merge = try await MergeProgress.watch(id, device, output) { output.progress(MigrateStatusCommand.text($0)) }
    output.result(MigrateStatusCommand.text(merge), JSONValue(merge))
    if merge.state == .failed { throw ExitCode(CommandFailure.Status.refused.rawValue) }
  }
}
