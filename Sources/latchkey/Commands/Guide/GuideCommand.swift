import ArgumentParser

struct GuideCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "guide",
    abstract: "The app's guides, and how far you have come in them.",
    examples: ["latchkey guide"],
    subcommands: [
      GuideListCommand.self, GuideShowCommand.self, GuideReportCommand.self, GuideResetCommand.self,
    ],
    defaultSubcommand: GuideListCommand.self
  )
}
