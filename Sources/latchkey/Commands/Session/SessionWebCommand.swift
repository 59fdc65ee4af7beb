import ArgumentParser
import Cryptography
import LatchkeyClient

struct SessionWebCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "web",
    abstract: "Print a cookie by which a browser acts in your name for an hour.",
    discussion: "Whoever has the cookie acts as you until it expires or this session ends.",
    examples: ["latchkey session web"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let cookie = try await device.webSession()
    output.verbatim(
      cookie.header,
      [
        "name": .string(cookie.name),
        "value": .string(cookie.value),
        "domain": .string(cookie.domain),
        "path": .string(cookie.path),
        "secure": .bool(cookie.isSecure),
        "http_only": .bool(cookie.isHTTPOnly),
        "same_site": .string(cookie.sameSite),
        "max_age_ms": .integer(Output.milliseconds(cookie.maximumAge)),
        "set_cookie": .string(cookie.header),
      ])
  }
}
