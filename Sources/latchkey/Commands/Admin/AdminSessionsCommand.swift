import ArgumentParser
import Cryptography
import LatchkeyProtos

struct AdminSessionsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sessions",
    abstract: "End sessions.",
    examples: [#"latchkey admin sessions end ada@example.com --reason "stolen phone""#],
    subcommands: [End.self]
  )

  struct End: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "End the sessions of one guest or account, or of everybody. Who can sign in may do so again.",
      examples: [
        #"latchkey admin sessions end ada@example.com --reason "stolen phone""#,
        #"latchkey admin sessions end --everybody --reason "keys were copied""#,
      ]
    )

    @OptionGroup var options: AdminOptions
    @OptionGroup var why: ReasonOption
    @Argument(help: "A subject's id, or an identifier.") var who: String?
    @Flag(help: "Of everybody.") var everybody = false

    func run(_ service: AdminConnection, _ output: Output) async throws {
      guard everybody == (who == nil) else { throw CommandFailure.usage("name somebody, or say --everybody") }
      var request = IdentityV1.EndSessionsRequest(reason: why.reason)
      if let who {
        request.whose = .sub(try await AdminUser.find(who, service).message.sub)
      } else {
        request.whose = .everybody(true)
      }
      // Everybody's sessions may take a while.
      var options = service.options
      options.timeout = nil
      let answer = try await service.admin.endSessions(request, options: options)
      output.result(
        "Sessions ended: \(answer.sessionsEnded).", ["sessions_ended": .integer(answer.sessionsEnded)])
    }
  }
}
