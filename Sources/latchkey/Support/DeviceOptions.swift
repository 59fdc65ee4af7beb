import ArgumentParser
import Glibc
import LatchkeyClient

/// Which device acts, and where the services are. Flags win over the environment.
struct DeviceOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The device to act as, a name of your choice (LATCHKEY_PROFILE); else default.", valueName: "name"))
  var profile: String?

  @Option(
    help: ArgumentHelp(
      "Where profiles are kept; else $XDG_STATE_HOME/latchkey or ~/.local/state/latchkey.",
      valueName: "directory"
    )
  )
  var stateDir: String?

  @Option(help: ArgumentHelp("LATCHKEY_IDENTITY_ADDRESS; else 127.0.0.1:7401.", valueName: "host:port"))
  var identity: String?

  @Option(help: ArgumentHelp("LATCHKEY_QR_ADDRESS; else 127.0.0.1:7402.", valueName: "host:port"))
  var qr: String?

  @Option(help: ArgumentHelp("LATCHKEY_MIGRATOR_ADDRESS; else 127.0.0.1:7403.", valueName: "host:port"))
  var migrator: String?

  @Option(
    help: ArgumentHelp(
      "Where this installation's QR codes point, compared exactly (else http:// or https:// and the "
        + "QR service's address).",
      valueName: "url"
    )
  )
  var qrBase: String?

  @Option(help: ArgumentHelp("The application's registered name; else latchkey-demo.", valueName: "name"))
  var clientID: String?

  @Flag(help: "Speak TLS to the services.")
  var tls = false

  @Option(
    help: ArgumentHelp("Trust these certificate authorities; implies --tls (LATCHKEY_TLS_CA_FILE).", valueName: "pem")
  )
  var tlsCA: String?

  @Flag(
    help: ArgumentHelp(
      "Answer in JSON, for scripts: one document on one line. Only qr issue --wait, qr issue --again and qr watch print "
        + "more than one: each code or state as it comes, and then the end."))
  var json = false

  @OptionGroup var color: ColorOption

  /// What flags and environment come to.
  func settings() throws(CommandFailure) -> Settings {
    let profile = profile ?? Self.environment("LATCHKEY_PROFILE") ?? "default"
    let isPlain = profile.utf8.allSatisfy { byte in
      (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
    guard isPlain, (1...64).contains(profile.utf8.count) else {
      throw .usage("--profile, LATCHKEY_PROFILE: 1 to 64 lower-case letters, digits, hyphens and underscores")
    }
    let qr = try address(qr, "LATCHKEY_QR_ADDRESS", "--qr", 7402)
    let authority = tlsCA ?? Self.environment("LATCHKEY_TLS_CA_FILE")
    let usesTLS = tls || authority != nil
    let client = ClientConfiguration(
      identity: try address(identity, "LATCHKEY_IDENTITY_ADDRESS", "--identity", 7401),
      qr: qr,
      migrator: try address(migrator, "LATCHKEY_MIGRATOR_ADDRESS", "--migrator", 7403),
      tls: usesTLS ? ClientTLS(authorities: try authority.map(Self.contents)) : nil,
      clientID: clientID ?? "latchkey-demo",
      qrBase: qrBase ?? "\(usesTLS ? "https" : "http")://\(qr)"
    )
    return Settings(
      client: client,
      profileDirectory: "\(try stateDirectory())/\(profile)",
      repeated: repeated,
      trust: usesTLS ? authority ?? "the system's authorities" : nil
    )
  }

  /// What was said on the command line and is not in the environment of the next command.
  var repeated: [String] {
    var words: [String] = []
    let options = [
      ("--profile", profile), ("--state-dir", stateDir), ("--identity", identity), ("--qr", qr),
      ("--migrator", migrator), ("--qr-base", qrBase), ("--client-id", clientID), ("--tls-ca", tlsCA),
    ]
    for (name, value) in options { if let value { words += [name, value] } }
    if tls { words.append("--tls") }
    return words
  }

  private static func contents(_ path: String) throws(CommandFailure) -> [UInt8] {
    var file = try InputFile(path)
    return try file.contents()
  }

  private func stateDirectory() throws(CommandFailure) -> String {
    if let stateDir { return stateDir }
    if let state = Self.environment("XDG_STATE_HOME") { return "\(state)/latchkey" }
    guard let home = Self.environment("HOME") else { throw .usage("no HOME: say --state-dir") }
    return "\(home)/.local/state/latchkey"
  }

  private func address(
    _ flag: String?,
    _ variable: String,
    _ name: String,
    _ defaultPort: Int
  ) throws(CommandFailure) -> ServiceAddress {
    if let flag {
      guard let address = ServiceAddress(flag) else { throw .usage("\(name): write host:port") }
      return address
    }
    if let set = Self.environment(variable) {
      guard let address = ServiceAddress(set) else { throw .usage("\(variable): write host:port") }
      return address
    }
    return ServiceAddress(host: "127.0.0.1", port: defaultPort)
  }

  /// Nil when the variable is not set or empty.
  static func environment(_ name: String) -> String? {
    // `getenv` returns a NUL-terminated text that stays while nobody changes the environment; nobody here does.
    guard let value = unsafe getenv(name) else { return nil }
    let text = unsafe String(cString: value)
    return text.isEmpty ? nil : text
  }
}
