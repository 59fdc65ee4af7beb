import ArgumentParser
import Cryptography
import LatchkeyProtos

struct AdminUserCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "user",
    abstract: "Look a guest or account up, keep it out, let it in, or delete it.",
    examples: ["latchkey admin user ada@example.com"],
    subcommands: [Show.self, Disable.self, Enable.self, Delete.self],
    defaultSubcommand: Show.self
  )

  struct Show: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Show what is on record of somebody.",
      examples: ["latchkey admin user show ada@example.com"]
    )

    @OptionGroup var options: AdminOptions
    @Argument(help: "A subject's id, or an identifier that leads to an account.") var who: String

    func run(_ service: AdminConnection, _ output: Output) async throws {
      let user = try await AdminUser.find(who, service)
      output.result(user.text, user.json)
    }
  }

  struct Disable: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "End all sessions and open watches of somebody, and let none begin.",
      examples: [#"latchkey admin user disable ada@example.com --reason "stolen phone""#]
    )

    @OptionGroup var options: AdminOptions
    @OptionGroup var why: ReasonOption
    @Argument(help: "A subject's id, or an identifier.") var who: String

    func run(_ service: AdminConnection, _ output: Output) async throws {
      let sub = try await AdminUser.find(who, service).message.sub
      let answer = try await service.admin.disableSubject(
        IdentityV1.DisableSubjectRequest(sub: sub, reason: why.reason), options: service.options)
      output.result(
        "Disabled. Sessions ended: \(answer.sessionsEnded).",
        ["sub": .string(sub), "sessions_ended": .integer(answer.sessionsEnded)])
    }
  }

  struct Enable: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Let somebody in again who was disabled.",
      examples: [#"latchkey admin user enable ada@example.com --reason "found again""#]
    )

    @OptionGroup var options: AdminOptions
    @OptionGroup var why: ReasonOption
    @Argument(help: "A subject's id, or an identifier.") var who: String

    func run(_ service: AdminConnection, _ output: Output) async throws {
      let sub = try await AdminUser.find(who, service).message.sub
      _ = try await service.admin.enableSubject(
        IdentityV1.EnableSubjectRequest(sub: sub, reason: why.reason), options: service.options)
      output.result("Enabled.", ["sub": .string(sub)])
    }
  }

  struct Delete: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Delete somebody for good, with all records. This cannot be undone.",
      examples: [#"latchkey admin user delete --reason "asked for it" $SUBJECT"#]
    )

    @OptionGroup var options: AdminOptions
    @OptionGroup var why: ReasonOption
    @OptionGroup var consent: ConsentOptions
    @Argument(help: "A subject's id: an identifier is not enough for what cannot be undone.") var sub: String

    func run(_ service: AdminConnection, _ output: Output) async throws {
      try consent.require("Delete \(sub) for good, with all records?", output)
      let answer = try await service.admin.deleteSubject(
        IdentityV1.DeleteSubjectRequest(sub: sub, reason: why.reason), options: service.options)
      output.result(
        answer.recordsDeleted ? "Deleted." : "Deleted; the records go as soon as the migrator can be reached.",
        [
          "sub": .string(sub), "sessions_ended": .integer(answer.sessionsEnded),
          "records_deleted": .bool(answer.recordsDeleted),
        ])
    }
  }
}

struct ReasonOption: ParsableArguments {
  @Option(help: "Why, for the audit log.")
  var reason = ""
}
