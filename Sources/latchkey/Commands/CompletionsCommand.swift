import ArgumentParser

struct CompletionsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "completions",
    abstract: "Print what lets your shell complete commands and flags.",
    discussion: """
      To have them in each bash, write them to ~/.local/share/bash-completion/completions/latchkey.
      """,
    examples: ["source <(latchkey completions bash)"]
  )

  /// The shells that the argument parser writes for.
  enum Shell: String, ExpressibleByArgument, CaseIterable {
    case bash
    case zsh
    case fish

    var completion: CompletionShell {
      switch self {
      case .bash: .bash
      case .zsh: .zsh
      case .fish: .fish
      }
    }
  }

  @Argument(help: "bash, zsh or fish.") var shell: Shell

  func run() async throws {
    Output(json: false).verbatim(LatchkeyCommand.completionScript(for: shell.completion), .null)
  }
}
