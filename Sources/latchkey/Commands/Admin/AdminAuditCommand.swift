import ArgumentParser
import Cryptography
import LatchkeyProtos

struct AdminAuditCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "audit",
    abstract: "The record of security events.",
    examples: ["latchkey admin audit"],
    subcommands: [List.self, Verify.self],
    defaultSubcommand: List.self
  )

  struct List: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Show events, oldest first, one a line of JSON.",
      examples: ["latchkey admin audit list --sub $SUBJECT --limit 20"]
    )

    @OptionGroup var options: AdminOptions
    @Option(help: "Only of this subject.") var sub = ""
    @Option(help: "Only after the event with this number.") var after: Int64 = 0
    @Option(help: "At most so many; 0 shows all.") var limit = 100

    func validate() throws {
      guard limit >= 0 else { throw ValidationError("--limit must not be negative") }
    }

    func run(_ service: AdminConnection, _ output: Output) async throws {
      var position = after
      var left = limit > 0 ? limit : Int.max
      var shown: [JSONValue] = []
      while left > 0 {
        let wanted = min(left, 1000)
        let page = try await service.audit.listAuditEvents(
          IdentityV1.ListAuditEventsRequest(after: position, limit: Int32(wanted), sub: sub), options: service.options
        ).events
        for event in page {
          let json = Self.json(event)
          if options.device.json {
            shown.append(json)
          } else {
            output.progress(json.line)
          }
        }
        left -= page.count
        guard page.count == wanted, let last = page.last else { break }
        position = last.sequence
      }
      output.result("", ["events": .array(shown)])
    }

    private static func json(_ event: IdentityV1.AuditEvent) -> JSONValue {
      func text(_ name: String, _ value: String) -> [JSONValue.Member] {
        value.isEmpty ? [] : [JSONValue.Member(name, .string(value))]
      }
      return .object(
        [JSONValue.Member("sequence", .integer(event.sequence))]
          + text("at", event.at?.millisecondsSinceEpoch.map { RFC3339.text($0) } ?? "") + text("kind", event.kind)
          + text("sub", event.sub) + text("sid", event.sid) + text("address", event.address)
          + text("detail", event.detail) + text("link", event.link))
    }
  }

  struct Verify: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Check that no event was changed, removed or slipped in.",
      discussion: "Keep the head that it prints elsewhere: a log that was replaced as a whole has another one.",
      examples: ["latchkey admin audit verify"]
    )

    @OptionGroup var options: AdminOptions

    func run(_ service: AdminConnection, _ output: Output) async throws {
      var options = service.options
      options.timeout = nil
      let answer = try await service.audit.verifyAuditLog(IdentityV1.VerifyAuditLogRequest(), options: options)
      output.result(
        answer.intact
          ? "Intact up to event \(answer.verified), head \(answer.head)."
          : "TAMPERED WITH after event \(answer.verified).",
        ["intact": .bool(answer.intact), "verified": .integer(answer.verified), "head": .string(answer.head)])
      if !answer.intact { throw ExitCode(CommandFailure.Status.refused.rawValue) }
    }
  }
}
