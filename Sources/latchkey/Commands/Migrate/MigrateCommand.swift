import ArgumentParser

struct MigrateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "migrate",
    abstract: "Move what the guest of this device made into the account that uses it now.",
    examples: ["latchkey migrate plan", "latchkey migrate start", "latchkey migrate watch"],
    subcommands: [
      MigratePlanCommand.self, MigrateStartCommand.self, MigrateStatusCommand.self, MigrateWatchCommand.self,
      MigrateListCommand.self, MigrateUndoCommand.self, MigrateConflictsCommand.self, MigrateResolveCommand.self,
    ]
  )
}
