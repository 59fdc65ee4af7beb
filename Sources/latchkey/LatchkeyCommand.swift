import ArgumentParser
import LatchkeyModel

/// The command-line tool: everything an app does with Latchkey, one command a step.
@main
struct LatchkeyCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "latchkey",
    abstract: "Use an app as a guest, sign in by QR code, and take your data along.",
    discussion: """
      Each profile is one device: it has its own key and its own session, kept in files that only you can read.

      Exit status: 0 done; 1 refused by the service; 2 a choice is needed (sign-in conflict), or a QR sign-in was \
      denied, expired or cancelled; 64 wrong usage; 65 an argument or an input line is invalid; 69 the service cannot \
      be reached or asks to come back later; 74 a file cannot be read or written; 77 nobody is signed in, or the \
      session has ended or may not do this.
      """,
    version: "latchkey \(Version.current)",
    examples: ["latchkey guest", "latchkey register ada@example.com --password-file password", "latchkey session"],
    subcommands: [CompletionsCommand.self],
    groupedSubcommands: [
      CommandGroup(
        name: "Begin",
        subcommands: [
          GuestCommand.self, RegisterCommand.self, LoginCommand.self, PatternCommand.self, LogoutCommand.self,
        ]),
      CommandGroup(name: "Sign in by code", subcommands: [QRCommand.self, TransferCommand.self]),
      CommandGroup(
        name: "What is yours",
        subcommands: [
          SessionCommand.self, DeviceCommandGroup.self, LinkCommand.self, AccountCommand.self, RecordCommand.self,
          MigrateCommand.self,
          GuideCommand.self,
        ]),
      CommandGroup(
        name: "Run an installation",
        subcommands: [HealthCommand.self, LoadCommand.self, ConfigCommand.self, AdminCommandGroup.self]),
    ]
  )

  static func main() async {
    do {
      var command = try parseAsRoot(KeyArgument.marking(CommandLine.arguments.dropFirst()))
      if var command = command as? any AsyncParsableCommand {
        try await command.run()
      } else {
        try command.run()
      }
    } catch {
      // Scripts tell a failed load test (1) from one that could not run (2) by two numbers, whatever was wrong.
      let isUsage = exitCode(for: error) == .validationFailure
      if exitCode(for: error).isSuccess {
        // Help and version, which are answers like any other.
        return Output(json: false).progress(fullMessage(for: error))
      }
      if isUsage, CommandLine.arguments.dropFirst().first == LoadCommand.configuration.commandName {
        Output.warn(fullMessage(for: error))
        exit(withError: ExitCode(LoadCommand.faultStatus))
      }
      if isUsage, let hint = Suggestion.text(for: Array(CommandLine.arguments.dropFirst()), in: Self.self) {
        Output.warn("latchkey: \(hint)")
      }
      if isUsage { Output.warn(fullMessage(for: error)) }
      exit(withError: isUsage ? ExitCode.validationFailure : error)
    }
  }
}
