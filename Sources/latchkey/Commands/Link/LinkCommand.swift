import ArgumentParser

struct LinkCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "link",
    abstract: "What leads to your account.",
    examples: ["latchkey link"],
    subcommands: [LinkListCommand.self, LinkAddCommand.self, LinkRemoveCommand.self],
    defaultSubcommand: LinkListCommand.self
  )
}
