import ArgumentParser
import Cryptography
import LatchkeyProtos

struct AdminPoliciesCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "policies",
    abstract: "Gates, app versions and networks, changed without a restart.",
    examples: ["latchkey admin policies"],
    subcommands: [Get.self, Set.self, Gate.self],
    defaultSubcommand: Get.self
  )

  struct Get: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Print the document that holds.",
      examples: ["latchkey admin policies get >policies.json"]
    )

    @OptionGroup var options: AdminOptions

    func run(_ service: AdminConnection, _ output: Output) async throws {
      let document = try await AdminDocument.get(.policies, service)
      output.verbatim(document.text, document.json)
    }
  }

  struct Set: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Put a document in the place of the one that holds. It needs a higher version.",
      examples: [#"latchkey admin policies set policies.json --reason "comments are open""#]
    )

    @OptionGroup var options: AdminOptions
    @OptionGroup var why: ReasonOption
    @Argument(help: ArgumentHelp("The document; - for standard input.", valueName: "file")) var file: String

    func run(_ service: AdminConnection, _ output: Output) async throws {
      try await AdminDocument(reading: file).set(.policies, why.reason, service)
      output.result("The policies hold.", ["changed": true])
    }
  }

  struct Gate: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Say whether an action needs a sign-in.",
      examples: ["latchkey admin policies gate comment --login --prompt sign-in-to-comment"]
    )

    @OptionGroup var options: AdminOptions
    @OptionGroup var why: ReasonOption
    @Argument(help: "Such as comment.") var action: String
    @Flag(inversion: .prefixedNo, help: "Whether guests have to sign in first.") var login: Bool
    @Option(help: "Names the text that asks for the sign-in.") var prompt: String?
    @Option(help: "Only for this application.") var client: String?

    func run(_ service: AdminConnection, _ output: Output) async throws {
      let document = try await AdminDocument.get(.policies, service)
      guard case .object(let members) = document.json, let version = document.json["version"]?.integer else {
        throw CommandFailure(.refused, "the service's document is none")
      }
      var gate = [JSONValue.Member("action", .string(action)), JSONValue.Member("login", .bool(login))]
      if let prompt { gate.append(JSONValue.Member("prompt", .string(prompt))) }
      if let client { gate.append(JSONValue.Member("client", .string(client))) }
      var gates = document.json["gates"]?.array ?? []
      gates.removeAll { $0["action"]?.string == action && $0["client"]?.string == client }
      gates.append(.object(gate))
      let others = members.filter { $0.name != "version" && $0.name != "gates" }
      let changed = JSONValue.object(
        [JSONValue.Member("version", .integer(version + 1)), JSONValue.Member("gates", .array(gates))] + others)
      try await AdminDocument(changed).set(.policies, why.reason, service)
      output.result(
        "\(action) \(login ? "needs a sign-in" : "is open to guests") from version \(version + 1) on.",
        ["version": .integer(version + 1)])
    }
  }
}
