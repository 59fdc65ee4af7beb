import ArgumentParser

struct LinkCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "link",
    abstract: "What leads to your account.",
    subcommands: [LinkListCommand.self, LinkAddCommand.self, LinkRemoveCommand.self],
    defaultSubcommand: LinkListCommand.self
  )
}
