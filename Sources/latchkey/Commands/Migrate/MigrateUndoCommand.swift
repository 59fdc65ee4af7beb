import ArgumentParser
import Cryptography
import LatchkeyClient

struct MigrateUndoCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "undo",
    abstract: "Take a merge back: your account gets what it had, and the guest is one again with its records.",
    discussion: "What was changed in the account since stays as it is.",
    examples: ["latchkey migrate undo"]
  )

  @OptionGroup var options: DeviceOptions

  @Argument(help: "The merge, when it is not this profile's last.")
  var id: String?

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let id = try MigrateStatusCommand.id(id, in: settings)
    if try await device.undoMerge(id: id) { output.progress("The merge is being taken back.") }
    let merge = try await MergeProgress.watch(id, device, output) { _ in }
    let text = merge.state == .undone ? "The merge was taken back." : "The merge was not taken back: \(merge.failure)"
    output.result(text, JSONValue(merge))
    if merge.state != .undone { throw ExitCode(CommandFailure.Status.refused.rawValue) }
  }
}
