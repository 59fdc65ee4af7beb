import ArgumentParser
import Cryptography
import LatchkeyClient

struct HealthCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "health",
    abstract: "Ask the three services whether they serve.",
    examples: ["latchkey health"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let services = await device.health()
    let rows = services.map { service in
      [service.name, "\(service.address)", service.state, service.roundTrip.map { Output.seconds($0) } ?? "-"]
    }
    output.result(
      Output.table(["service", "address", "state", "answered in"], rows),
      [
        "services": .array(
          services.map { service in
            [
              "name": .string(service.name),
              "address": .string("\(service.address)"),
              "state": .string(service.state),
              "serving": .bool(service.isServing),
            ]
          }
        )
      ]
    )
    if !services.allSatisfy(\.isServing) { throw ExitCode(CommandFailure.Status.unavailable.rawValue) }
  }
}
