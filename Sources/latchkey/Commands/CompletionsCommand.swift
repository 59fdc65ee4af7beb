import ArgumentParser

struct CompletionsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "completions",
    abstract: "Print what lets your shell complete commands and flags.",
    discussion: """
      For bash: latchkey completions bash >~/.local/share/bash-completion/completions/latchkey
      """
  )

  @Argument(help: "bash, zsh or fish.") var shell: CompletionShell

  func run() async throws {
    Output(json: false).progress(LatchkeyCommand.completionScript(for: shell))
  }
}

extension CompletionShell: @retroactive ExpressibleByArgument {}
