import ArgumentParser
import Cryptography
import LatchkeyClient

struct DeviceListCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "Show the devices that you are signed in on or that are yours, the one seen last first.",
    examples: ["latchkey device list"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let devices = try await device.devices()
    let rows = devices.map { device in
      [
        device.keyThumbprint, device.isCurrent ? "this" : "", device.label, device.platform, "\(device.sessions)",
        device.lastSeenAt.map { Ago.text($0) } ?? "", device.binding.map(Self.text) ?? "",
      ]
    }
    output.result(
      Output.table(
        ["device", "", "label", "platform", "sessions", "last seen", "bound"], rows, nothing: "No devices."),
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
              "binding": device.binding.map(Self.json) ?? .null,
            ]
          })
      ])
  }

  private static func text(_ binding: DeviceBinding) -> String {
    let by = binding.confirmedByLabel.isEmpty ? binding.confirmedByKey : binding.confirmedByLabel
    return "by QR code, \(binding.boundAt.map { Ago.text($0) } ?? "at some time") on \(by.isEmpty ? "a phone" : by)"
  }

  private static func json(_ binding: DeviceBinding) -> JSONValue {
    [
      "bound_at": binding.boundAt.map { .string(RFC3339.text($0)) } ?? .null,
      "confirmed_by_label": .string(binding.confirmedByLabel),
      "confirmed_by_key": .string(binding.confirmedByKey),
      "scope": .string(binding.scope),
    ]
  }
}
