import ArgumentParser
import Cryptography
import LatchkeyProtos

struct AdminGuidesCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "guides",
    abstract: "The guides' document, changed without a restart.",
    examples: ["latchkey admin guides"],
    subcommands: [Get.self, Set.self],
    defaultSubcommand: Get.self
  )

  struct Get: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Print the document that holds.",
      examples: ["latchkey admin guides get >guides.json"]
    )

    @OptionGroup var options: AdminOptions

    func run(_ service: AdminConnection, _ output: Output) async throws {
      let document = try await AdminDocument.get(.guides, service)
      output.verbatim(document.text, document.json)
    }
  }

  struct Set: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Put a document in the place of the one that holds. A changed guide needs a higher version.",
      examples: [#"latchkey admin guides set guides.json --reason "first guide""#]
    )

    @OptionGroup var options: AdminOptions
    @OptionGroup var why: ReasonOption
    @Argument(help: ArgumentHelp("The document; - for standard input.", valueName: "file")) var file: String

    func run(_ service: AdminConnection, _ output: Output) async throws {
      try await AdminDocument(reading: file).set(.guides, why.reason, service)
      output.result("The guides hold.", ["changed": true])
    }
  }
}
