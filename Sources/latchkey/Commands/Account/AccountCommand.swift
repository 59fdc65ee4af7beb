import ArgumentParser

struct AccountCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "account",
    abstract: "Your account: its profile, its password, its end.",
    examples: ["latchkey account"],
    subcommands: [
      AccountShowCommand.self, AccountUpdateCommand.self, AccountPasswordCommand.self, AccountRecoverCommand.self,
      AccountVerifyCommand.self, AccountDeleteCommand.self,
    ],
    defaultSubcommand: AccountShowCommand.self
  )
}
