import ArgumentParser

struct SessionCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "session",
    abstract: "Look at this profile's session.",
    subcommands: [
      SessionShowCommand.self, SessionIntrospectCommand.self, SessionRefreshCommand.self, SessionTokenCommand.self,
    ],
    defaultSubcommand: SessionShowCommand.self
  )
}
