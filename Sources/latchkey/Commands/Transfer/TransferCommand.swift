import ArgumentParser

struct TransferCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "transfer",
    abstract: "Move this profile's guest or account to another device.",
    examples: ["latchkey transfer create"],
    subcommands: [
      TransferCreateCommand.self, TransferInspectCommand.self, TransferRedeemCommand.self, TransferCancelCommand.self,
    ]
  )
}
