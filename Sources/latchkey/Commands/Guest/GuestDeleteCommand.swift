import ArgumentParser
import Cryptography
import LatchkeyClient

struct GuestDeleteCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "delete",
    abstract: "Delete this profile's guest and all its records for good.",
    examples: ["latchkey guest delete --profile phone"]
  )

  @OptionGroup var options: DeviceOptions
  @OptionGroup var consent: ConsentOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    if case .guest = try await device.authState() {
      try consent.require("Delete this device's guest and all its records, for good?", output)
    }
    let gone = try await device.deleteGuest()
    output.result(
      gone ? "Deleted." : "Deleted; the records go as soon as they can be reached.", ["records_deleted": .bool(gone)])
  }
}
