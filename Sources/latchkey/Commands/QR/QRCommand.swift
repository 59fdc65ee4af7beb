import ArgumentParser

struct QRCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "qr",
    abstract: "Sign a screen in with a phone that already is.",
    discussion: """
      The screen:  latchkey qr issue --profile desktop --png code.png, then latchkey qr wait --profile desktop
      The phone:   latchkey qr scan --profile phone WHAT-THE-CODE-HOLDS, then latchkey qr confirm --profile phone
      """,
    subcommands: [
      QRIssueCommand.self, QRWaitCommand.self, QRWatchCommand.self, QRStatusCommand.self, QRCancelCommand.self,
      QRScanCommand.self, QRConfirmCommand.self, QRDenyCommand.self, QRDrawCommand.self,
    ]
  )
}
