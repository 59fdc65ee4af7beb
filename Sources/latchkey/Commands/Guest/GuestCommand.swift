import ArgumentParser

struct GuestCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "guest",
    abstract: "Use this device without an account; take the guest's data along, or delete the guest.",
    examples: ["latchkey guest --profile phone"],
    subcommands: [GuestStartCommand.self, GuestExportCommand.self, GuestDeleteCommand.self],
    defaultSubcommand: GuestStartCommand.self
  )
}
