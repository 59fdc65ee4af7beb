import ArgumentParser
import Cryptography
import LatchkeyClient

struct DeviceResolveCloneCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "resolve-clone",
    abstract: "Go on when the service says that another device holds a copy of this profile's key (DEVICE_CLONED).",
    discussion: """
      This profile gets a new key. transfer: it keeps its guest, and the other device begins anew; every session that \
      either had ends. split: the other device keeps the guest, and this one begins anew. Of two devices that choose, \
      the first choice holds. Whoever is signed in to an account here signs in again.
      """,
    examples: ["latchkey device resolve-clone transfer"]
  )

  @OptionGroup var options: DeviceOptions
  @Argument(help: "transfer or split.") var choice: CloneChoice

  @Option(help: "A name that you recognise the device by.")
  var label = "latchkey command line"

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let start = try await device.resolveClone(choice, DeviceDescription(label: label, platform: "cli"))
    output.result(
      start.created
        ? "This device has a new key, and you are a new guest on it."
        : "This device has a new key and keeps its guest.",
      ["created": .bool(start.created), "session": JSONValue(start.session)])
  }
}

extension CloneChoice: ExpressibleByArgument {}
