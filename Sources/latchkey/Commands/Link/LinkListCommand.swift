import ArgumentParser
import Cryptography
import LatchkeyClient

struct LinkListCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "Show what leads to your account.",
    examples: ["latchkey link list"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let identities = try await device.identities()
    output.result(
      Output.table(
        ["identity", "kind", "mask", "verified"],
        identities.map { [$0.identityID, $0.kind, $0.mask, $0.verified ? "yes" : "no"] },
        nothing: "No identities."),
      ["identities": .array(identities.map { JSONValue($0) })])
  }
}

extension JSONValue {
  init(_ identity: LinkedIdentity) {
    self = [
      "identity_id": .string(identity.identityID),
      "kind": .string(identity.kind),
      "mask": .string(identity.mask),
      "verified": .bool(identity.verified),
      "linked_at": identity.linkedAt.map { .string(RFC3339.text($0)) } ?? .null,
    ]
  }
}
