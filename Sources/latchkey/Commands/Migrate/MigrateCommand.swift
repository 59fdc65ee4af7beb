import ArgumentParser

struct MigrateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "migrate",
    abstract: "Move what the guest of this device made into the account that uses it now.",
    subcommands: [
      MigratePlanCommand.self, MigrateStartCommand.self, MigrateStatusCommand.self, MigrateWatchCommand.self,
      MigrateListCommand.self, MigrateUndoCommand.self, MigrateConflictsCommand.self, MigrateResolveCommand.self,
    ]
  )
}
