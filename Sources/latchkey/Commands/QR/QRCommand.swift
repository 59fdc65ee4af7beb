import ArgumentParser

struct QRCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "qr",
    abstract: "Sign a screen in with a phone that already is.",
    examples: [
      "latchkey qr issue --profile desktop --no-draw --png code.png",
      #"latchkey qr scan "$(zbarimg -q --raw code.png)""#, "latchkey qr confirm", "latchkey qr wait --profile desktop",
    ],
    subcommands: [
      QRIssueCommand.self, QRWaitCommand.self, QRWatchCommand.self, QRStatusCommand.self, QRCancelCommand.self,
      QRScanCommand.self, QRConfirmCommand.self, QRDenyCommand.self, QRDrawCommand.self,
    ]
  )
}
