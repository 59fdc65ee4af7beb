import ArgumentParser
import Cryptography
import LatchkeyProtos

struct AdminKeysCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "keys",
    abstract: "The keys that sign tokens.",
    examples: [#"latchkey admin keys rotate --reason "every year""#],
    subcommands: [Rotate.self]
  )

  struct Rotate: AdminCommand {
    static let configuration = CommandConfiguration(
      abstract: "Make the next signing key. It takes over once verifiers know it, and logs nobody out.",
      examples: [#"latchkey admin keys rotate --reason "every year""#]
    )

    @OptionGroup var options: AdminOptions
    @OptionGroup var why: ReasonOption

    func run(_ service: AdminConnection, _ output: Output) async throws {
      let answer = try await service.admin.rotateSigningKey(
        IdentityV1.RotateSigningKeyRequest(reason: why.reason), options: service.options)
      let from = answer.signsFrom?.millisecondsSinceEpoch
      output.result(
        "The key \(answer.kid) signs \(from.map { Ago.text($0) } ?? "from now on").",
        ["kid": .string(answer.kid), "signs_from": from.map { .string(RFC3339.text($0)) } ?? .null])
    }
  }
}
