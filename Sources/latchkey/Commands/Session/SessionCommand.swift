import ArgumentParser

struct SessionCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "session",
    abstract: "Look at this profile's session, and at your others.",
    examples: ["latchkey session", "latchkey session list"],
    subcommands: [
      SessionShowCommand.self, SessionIntrospectCommand.self, SessionRefreshCommand.self, SessionTokenCommand.self,
      SessionListCommand.self, SessionEndCommand.self, SessionEndOthersCommand.self, SessionConfirmCommand.self,
      SessionWebCommand.self, SessionStepUpCommand.self,
    ],
    defaultSubcommand: SessionShowCommand.self
  )
}
