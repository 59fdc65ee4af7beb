import ArgumentParser
import Cryptography
import LatchkeyClient

struct DeviceListCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "Show the devices with a session of yours, the one seen last first.")

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let devices = try await device.devices()
    let rows = devices.map { device in
      [
        device.keyThumbprint, device.isCurrent ? "this" : "", device.label, device.platform, "\(device.sessions)",
        device.lastSeenAt.map { RFC3339.text($0) } ?? "",
      ]
    }
    output.result(
      Output.table(["device", "", "label", "platform", "sessions", "last seen"], rows),
      [
        "devices": .array(
          devices.map { device in
            [
              "key_thumbprint": .string(device.keyThumbprint),
              "label": .string(device.label),
              "platform": .string(device.platform),
              "os_version": .string(device.osVersion),
              "app_version": .string(device.appVersion),
              "first_seen_at": device.firstSeenAt.map { .string(RFC3339.text($0)) } ?? .null,
              "last_seen_at": device.lastSeenAt.map { .string(RFC3339.text($0)) } ?? .null,
              "sessions": .integer(device.sessions),
              "current": .bool(device.isCurrent),
            ]
          })
      ])
  }
}
