import ArgumentParser

struct RecordCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "record",
    abstract: "Store and read what a person makes in an app, in the built-in record store.",
    examples: ["latchkey record put records.jsonl", "latchkey record list cart"],
    subcommands: [
      RecordPutCommand.self, RecordGetCommand.self, RecordListCommand.self, RecordDeleteCommand.self,
      RecordCollectionsCommand.self,
    ]
  )
}
