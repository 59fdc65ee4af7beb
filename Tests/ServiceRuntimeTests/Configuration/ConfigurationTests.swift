import Cryptography
import Glibc
import JSON
import LatchkeyModel
import Testing

@testable import ServiceRuntime

@Suite("Configuration")
final class ConfigurationTests {
  enum Colour: String, CaseIterable, Sendable { case red, green }

  static let size = ConfigurationKey.integer("picture.size", default: 10, in: 1...100, help: "size")
  static let colour = ConfigurationKey<Colour>.choice("picture.mainColour", default: .red, help: "colour")
  static let lifetime = ConfigurationKey.duration(
    "token.lifetime",
    default: .seconds(900),
    in: .seconds(1)...(.seconds(86_400)),
    help: "lifetime"
  )
  static let names = ConfigurationKey.strings("names", default: ["a"], help: "names")
  static let secret = ConfigurationKey.optionalString("smtpPassword", isSecret: true, help: "secret")

  static let service = ServiceDescription(
    name: "latchkey-test",
    port: 7499,
    managementPort: 7599,
    keys: [
      size.declaration, colour.declaration, lifetime.declaration, names.declaration, secret.declaration,
    ]
  )

  let file = "/tmp/latchkey-config-\(SecureRandom.bytes(8).map { String($0, radix: 16) }.joined()).json"

  deinit {
    // The path is copied for the call.
    _ = unsafe unlink(file)
  }

  private func write(_ text: String) throws {
    try SecretFile.replace(file, Array(text.utf8))
  }

  private func load(
    _ arguments: [String] = [],
    environment: [String: String] = [:]
  ) throws -> ServiceConfiguration {
    switch try ServiceInvocation(Self.service, arguments: arguments, environment: environment) {
    case .run(let configuration): return configuration
    case .probe:
      Issue.record("asked to run, it asks for the health")
      throw ConfigurationError.conflict("unexpected")
    case .show(let text):
      Issue.record("asked to run, it shows \(text)")
      throw ConfigurationError.conflict("unexpected")
    }
  }

  private func shown(_ arguments: [String], environment: [String: String] = [:]) throws -> String {
    switch try ServiceInvocation(Self.service, arguments: arguments, environment: environment) {
    case .run, .probe: return "runs"
    case .show(let text): return text
    }
  }

  @Test("with no configuration at all a service listens on loopback, cleartext, at its own ports")
  func defaults() throws {
    let configuration = try load()
    #expect(configuration.listen == Endpoint(host: "127.0.0.1", port: 7499))
    #expect(configuration.management == Endpoint(host: "127.0.0.1", port: 7599))
    #expect(configuration.dataDirectory == ".latchkey")
    #expect(configuration.serviceTokenFile == ".latchkey/service-token")
    #expect(configuration.certificateFiles == nil)
    #expect(configuration[Self.size] == 10)
    #expect(configuration[Self.colour] == .red)
    #expect(configuration[Self.lifetime] == .seconds(900))
    #expect(configuration[Self.names] == ["a"])
    #expect(configuration[Self.secret] == nil)
    #expect(configuration[CommonKeys.logLevel] == .info)
  }

  @Test("defaults < file < environment < flags, key by key")
  func precedence() throws {
    try write(#"{"picture": {"size": 20, "mainColour": "green"}, "token": {"lifetime": "2m"}, "names": ["x", "y"]}"#)
    let fromFile = try load(["--config", file])
    #expect(fromFile[Self.size] == 20)
    #expect(fromFile[Self.colour] == .green)
    #expect(fromFile[Self.lifetime] == .seconds(120))
    #expect(fromFile[Self.names] == ["x", "y"])
    let environment = ["LATCHKEY_PICTURE_SIZE": "30", "LATCHKEY_TOKEN_LIFETIME": "3h", "LATCHKEY_NAMES": "p,q"]
    let fromEnvironment = try load(["--config=\(file)"], environment: environment)
    #expect(fromEnvironment[Self.size] == 30)
    #expect(fromEnvironment[Self.colour] == .green)
    #expect(fromEnvironment[Self.lifetime] == .seconds(10_800))
    #expect(fromEnvironment[Self.names] == ["p", "q"])
    let fromFlags = try load(
      ["--picture-size", "40", "--config", file, "--names=z"],
      environment: environment
    )
    #expect(fromFlags[Self.size] == 40)
    #expect(fromFlags[Self.lifetime] == .seconds(10_800))
    #expect(fromFlags[Self.colour] == .green)
    #expect(fromFlags[Self.names] == ["z"])
  }

  @Test("the file may be named by the environment, and a flag names another")
  func fileVariable() throws {
    try write(#"{"picture": {"size": 20}}"#)
    #expect(try load(environment: ["LATCHKEY_CONFIG": file])[Self.size] == 20)
    #expect(throws: ConfigurationError.file(path: "/nowhere", reason: "No such file or directory")) {
      try load(["--config", "/nowhere"], environment: ["LATCHKEY_CONFIG": file])
    }
  }

  @Test("a flag of true or false may stand alone")
  func booleans() throws {
    #expect(try load(["--insecure-cleartext"])[CommonKeys.insecureCleartext])
    #expect(try !load(["--insecure-cleartext=false"])[CommonKeys.insecureCleartext])
    #expect(try load(["--insecure-cleartext", "--picture-size", "5"])[Self.size] == 5)
    #expect(try load(environment: ["LATCHKEY_INSECURE_CLEARTEXT": "true"])[CommonKeys.insecureCleartext])
  }

  @Test("an unknown key is refused in each source, with the nearest known one named")
  func unknownKeys() throws {
    #expect(
      throws: ConfigurationError.unknownKey(
        written: "--picture-sise",
        source: .flags,
        nearest: "--picture-size"
      )
    ) { try load(["--picture-sise", "3"]) }
    #expect(
      throws: ConfigurationError.unknownKey(
        written: "LATCHKEY_LISTEN_PROT",
        source: .environment,
        nearest: "LATCHKEY_LISTEN_PORT"
      )
    ) { try load(environment: ["LATCHKEY_LISTEN_PROT": "1"]) }
    try write(#"{"tls": {"certificatFile": "x"}}"#)
    #expect(
      throws: ConfigurationError.unknownKey(
        written: "tls.certificatFile",
        source: .file,
        nearest: "tls.certificateFile"
      )
    ) { try load(["--config", file]) }
    #expect(throws: ConfigurationError.unknownKey(written: "--qqqqqqqqqqqq", source: .flags, nearest: nil)) {
      try load(["--qqqqqqqqqqqq=1"])
    }
    // A section where a value belongs, and a value where a section belongs.
    try write(#"{"dataDir": {"path": "x"}}"#)
    #expect(throws: ConfigurationError.self) { try load(["--config", file]) }
    try write(#"{"picture": 3}"#)
    #expect(throws: ConfigurationError.self) { try load(["--config", file]) }
    // Other programs' variables are none of our business.
    #expect(try load(environment: ["PATH": "/bin", "LATCHKEYS": "x"])[Self.size] == 10)
  }

  @Test("one environment serves all services: another service's variable is accepted, its misspelling is not")
  func otherServicesVariables() throws {
    let others = [
      "LATCHKEY_TOKEN_ACCESS_LIFETIME": "5m", "LATCHKEY_CLIENTS": "a,b", "LATCHKEY_MIGRATION_COLLECTIONS": "x",
    ]
    #expect(try load(environment: others)[Self.size] == 10)
    #expect(
      throws: ConfigurationError.unknownKey(
        written: "LATCHKEY_TOKEN_ACCES_LIFETIME",
        source: .environment,
        nearest: "LATCHKEY_TOKEN_ACCESS_LIFETIME"
      )
    ) { try load(environment: ["LATCHKEY_TOKEN_ACCES_LIFETIME": "5m"]) }
    // A flag is written for one service.
    #expect(throws: ConfigurationError.self) { try load(["--token-access-lifetime", "5m"]) }
  }

  @Test(
    "a value that its key cannot have is refused by the key's name",
    arguments: [
      ["--picture-size", "0"], ["--picture-size", "101"], ["--picture-size", "x"], ["--picture-size="],
      ["--picture-main-colour", "blue"], ["--token-lifetime", "900"], ["--token-lifetime", "2 m"],
      ["--token-lifetime", "2d"], ["--token-lifetime", "-5s"], ["--token-lifetime", "99999999999999999999d"],
      ["--listen-port", "65536"], ["--listen-port", "-1"], ["--log-level", "loud"], ["--insecure-cleartext=maybe"],
      ["--identity-address", "nowhere"], ["--identity-address", "host:0"], ["--identity-address", "::1:80"],
    ]
  )
  func badValues(_ arguments: [String]) throws {
    let flag = String(arguments[0].split(separator: "=")[0])
    do {
      _ = try load(arguments)
      Issue.record("accepted")
    } catch ConfigurationError.invalidValue(let key, let reason) {
      #expect(Self.service.declarations.first { $0.name == key }?.flag == flag)
      #expect(!reason.isEmpty)
    }
  }

  @Test(
    "a file that is no configuration is refused with its path",
    arguments: ["", "[]", "{", #"{"a": 1, "a": 2}"#, "\u{FEFF}{}"]
  )
  func badFiles(_ text: String) throws {
    try write(text)
    do {
      _ = try load(["--config", file])
      Issue.record("accepted")
    } catch ConfigurationError.file(let path, _) {
      #expect(path == file)
    }
  }

  @Test("values of another JSON type than the key's are refused")
  func badTypes() throws {
    for text in [
      #"{"picture": {"size": "20"}}"#, #"{"picture": {"size": 1.5}}"#, #"{"picture": {"size": null}}"#,
      #"{"insecureCleartext": "true"}"#, #"{"names": "a"}"#, #"{"names": [1]}"#, #"{"dataDir": 5}"#,
    ] {
      try write(text)
      #expect(throws: ConfigurationError.self, "\(text)") { try load(["--config", file]) }
    }
  }

  @Test("stray and incomplete arguments are refused")
  func arguments() {
    #expect(throws: ConfigurationError.unexpectedArgument("start")) { try load(["start"]) }
    #expect(throws: ConfigurationError.unexpectedArgument("-p")) { try load(["-p", "1"]) }
    #expect(throws: ConfigurationError.missingValue(written: "--listen-port")) { try load(["--listen-port"]) }
    #expect(throws: ConfigurationError.missingValue(written: "--config")) { try load(["--config"]) }
  }

  @Test(
    "R41: an address beyond loopback without TLS is refused unless cleartext is asked for",
    arguments: ["0.0.0.0", "::", "192.0.2.1", "example.com", "127.0.0.1.example.com", "127.1"]
  )
  func cleartext(_ host: String) throws {
    #expect(throws: ConfigurationError.self) { try load(["--listen-host", host]) }
    #expect(try load(["--listen-host", host, "--insecure-cleartext"]).listen.host == host)
    let tls = ["--listen-host", host, "--tls-certificate-file", "c.pem", "--tls-key-file", "k.pem"]
    #expect(try load(tls).certificateFiles?.certificate == "c.pem")
  }

  @Test(
    "the issuer is a URL without query and fragment",
    arguments: [
      "id.example", "ftp://id.example", "https://", "https://id.example/?a", "https://id.example#a", "https://a b",
    ]
  )
  func issuer(_ text: String) throws {
    #expect(throws: ConfigurationError.self) { try load(["--issuer", text]) }
    #expect(try load(["--issuer", "https://id.example/a"])[CommonKeys.issuer] == "https://id.example/a")
  }

  @Test("loopback needs no TLS", arguments: ["127.0.0.1", "127.9.8.7", "::1", "localhost"])
  func loopback(_ host: String) throws {
    #expect(try load(["--listen-host", host]).listen.host == host)
  }

  @Test("a certificate without its key, and a key without its certificate, are refused")
  func halfTLS() {
    #expect(throws: ConfigurationError.self) { try load(["--tls-certificate-file", "c.pem"]) }
    #expect(throws: ConfigurationError.self) { try load(["--tls-key-file", "k.pem"]) }
    #expect(throws: ConfigurationError.self) { try load(["--listen-port", "80", "--management-port", "80"]) }
  }

  @Test("--print-config shows every effective value, and no secret")
  func printing() throws {
    let text = try shown(
      ["--print-config", "--picture-size", "7"],
      environment: ["LATCHKEY_SMTP_PASSWORD": "hunter2"]
    )
    #expect(!text.contains("hunter2"))
    let document = try JSONValue(parsing: Array(text.utf8))
    #expect(document["picture"] == ["size": 7, "mainColour": "red"])
    #expect(document["smtpPassword"] == "[redacted]")
    #expect(document["token"] == ["lifetime": "15m"])
    #expect(document["names"] == ["a"])
    #expect(document["listen"] == ["host": "127.0.0.1", "port": 7499])
    // An unset secret is shown as unset.
    #expect(try JSONValue(parsing: Array(shown(["--print-config"]).utf8))["smtpPassword"] == "")
  }

  @Test("what --print-config shows is a configuration file that gives the same values")
  func printedFileLoads() throws {
    let text = try shown(["--print-config", "--picture-size", "7", "--names", "p,q", "--token-lifetime=90s"])
    try write(text)
    #expect(try shown(["--print-config", "--config", file]) == text)
  }

  @Test("a secret in the wrong place is not repeated in the error")
  func errorsKeepSecrets() throws {
    do {
      _ = try load(environment: ["LATCHKEY_PICTURE_SIZE": "hunter2"])
      Issue.record("accepted")
    } catch let error as ConfigurationError {
      #expect(!error.description.contains("hunter2"))
    }
  }

  @Test("--check-config validates and shows, --help names every key")
  func otherActions() throws {
    #expect(try shown(["--check-config"]) == "the configuration is valid")
    #expect(throws: ConfigurationError.self) { try shown(["--check-config", "--picture-size", "0"]) }
    let help = try shown(["--help"])
    for declaration in Self.service.declarations { #expect(help.contains("\(declaration.flag)  ")) }
    #expect(try shown(["--version"]) == "latchkey-test \(Version.current)")
  }

  @Test("--check-health asks by the configuration that the service runs by")
  func probe() throws {
    let arguments = ["--check-health", "--management-port", "7999"]
    let invocation = try ServiceInvocation(Self.service, arguments: arguments, environment: [:])
    guard case .probe(let configuration) = invocation else {
      Issue.record("asked for the health, it does something else")
      return
    }
    #expect(configuration.management.port == 7999)
    #expect(throws: ConfigurationError.self) { try shown(["--check-health", "--management-port", "x"]) }
  }

  @Test("times read back as they are written")
  func durations() {
    for (text, duration): (String, Duration) in [
      ("250ms", .milliseconds(250)), ("0s", .zero), ("30s", .seconds(30)), ("15m", .seconds(900)),
      ("12h", .seconds(43_200)), ("30d", .seconds(2_592_000)), ("1500ms", .milliseconds(1500)),
    ] {
      #expect(ConfigurationDuration.parse(text) == duration)
      #expect(ConfigurationDuration.text(duration) == text)
    }
    for text in ["", "s", "5", "5 s", "5S", "1.5s", "-1s", "+1s", "5min", "٣s", "999999999999d"] {
      #expect(ConfigurationDuration.parse(text) == nil, "\(text)")
    }
  }

  @Test("endpoints read back as they are written")
  func endpoints() {
    for text in ["127.0.0.1:80", "identity.internal:7401", "[::1]:65535"] {
      #expect(Endpoint(text)?.description == text)
    }
    for text in ["", "host", ":80", "host:", "host:0", "host:65536", "::1:80", "[::1]", "a b:80", "http://h:80"] {
      #expect(Endpoint(text) == nil, "\(text)")
    }
  }
}
