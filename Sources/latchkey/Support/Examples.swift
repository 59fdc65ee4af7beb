import ArgumentParser

extension CommandConfiguration {
  /// What a command says of itself, and examples of it. They stand here once: `--help` and the manual's pages show them,
  /// and a test runs each against real services.
  ///
  /// - Parameter examples: lines for a shell that work in this order. What differs from one person to the next is a
  ///   variable, such as `$CODE`.
  init(
    commandName: String? = nil,
    abstract: String,
    discussion: String = "",
    version: String = "",
    examples: [String],
    subcommands: [any ParsableCommand.Type] = [],
    groupedSubcommands: [CommandGroup] = [],
    defaultSubcommand: (any ParsableCommand.Type)? = nil
  ) {
    let shown = (["Examples:"] + examples.map { "  $ \($0)" }).joined(separator: "\n")
    self.init(
      commandName: commandName,
      abstract: abstract,
      discussion: discussion.isEmpty ? shown : "\(discussion)\n\n\(shown)",
      version: version,
      subcommands: subcommands,
      groupedSubcommands: groupedSubcommands,
      defaultSubcommand: defaultSubcommand
    )
  }
}
