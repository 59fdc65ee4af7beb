internal import LatchkeyModel

/// What a command line and an environment ask of a service.
package enum ServiceInvocation: Sendable {
  case run(ServiceConfiguration)
  /// Ask the service that runs by the same configuration whether it serves.
  case probe(ServiceConfiguration)
  /// Write the text to standard output and end well.
  case show(String)

  /// Errors: ``ConfigurationError``, whose description is the line to show.
  package init(
    _ service: ServiceDescription,
    arguments: [String],
    environment: [String: String]
  ) throws(ConfigurationError) {
    let declarations = service.declarations
    let flags = try CommandLineFlags(arguments, declarations)
    switch flags.action {
    case .help:
      self = .show(Self.help(service))
      return
    case .version:
      self = .show("\(service.name) \(Version.current)")
      return
    case .access:
      self = .show(String(decoding: service.policies.json.encoded(), as: UTF8.self))
      return
    case .run, .check, .print, .probe: break
    }
    let path = flags.file ?? environment[ServiceConfiguration.fileVariable]
    let configuration = try ServiceConfiguration(
      declarations: declarations,
      file: path.map { (path) throws(ConfigurationError) in try ConfigurationFile.load(path) } ?? [],
      environment: environment,
      flags: flags.values,
      development: service.development
    )
    try configuration.checkTogether()
    self =
      switch flags.action {
      case .check: .show("the configuration is valid")
      case .print: .show(String(decoding: configuration.json.encoded(), as: UTF8.self))
      case .probe: .probe(configuration)
      default: .run(configuration)
      }
  }

  private static func help(_ service: ServiceDescription) -> String {
    let flags = service.declarations.map { declaration in
      let value =
        switch declaration.defaultValue {
        case .string(""): ""
        case .string(let text): " (\(text))"
        case .integer(let number): " (\(number))"
        case .boolean: ""
        case .strings(let texts): texts.isEmpty ? "" : " (\(texts.joined(separator: ",")))"
        }
      return "  \(declaration.flag)  \(declaration.help)\(value)"
    }
    return """
      usage: \(service.name) [--config FILE] [--KEY VALUE]…

      Values come from defaults, the JSON file, the environment (LATCHKEY_…) and the flags; the later wins.

        --config  JSON file to read (LATCHKEY_CONFIG)
        --check-config  validate the configuration and exit
        --print-config  show the effective values, secrets redacted, and exit
        --print-access  show who may call which method, and exit
        --check-health  ask the service that runs by this configuration whether it serves; exit status 0 if so
        --version  show the version and exit

      \(flags.joined(separator: "\n"))
      """
  }
}
