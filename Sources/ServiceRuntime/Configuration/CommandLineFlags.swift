/// What the command line asks for: values of keys, and what to do instead of running.
struct CommandLineFlags {
  /// What the process is to do.
  enum Action: Equatable {
    case run
    /// Validate the configuration and exit.
    case check
    /// Show the effective values, secrets redacted, and exit.
    case print
    /// Ask the service that runs by the same configuration whether it serves, and exit.
    case probe
    /// Show the table of methods and exit.
    case access
    case help
    case version
  }

  var action = Action.run
  /// The file named by `--config`.
  var file: String?
  /// By declared name, as written.
  var values: [String: String] = [:]

  private static let actions: [String: Action] = [
    "--check-config": .check, "--print-config": .print, "--print-access": .access, "--check-health": .probe,
    "--help": .help, "-h": .help, "--version": .version,
  ]

  /// Every argument must be a known flag: `--flag value` or `--flag=value`; a Boolean one may stand alone.
  init(_ arguments: [String], _ declarations: [ConfigurationDeclaration]) throws(ConfigurationError) {
    let flags = Dictionary(declarations.map { ($0.flag, $0) }) { first, _ in first }
    var index = 0
    while index < arguments.count {
      let argument = arguments[index]
      index += 1
      if let action = Self.actions[argument] {
        self.action = action
        continue
      }
      guard argument.hasPrefix("--") else { throw .unexpectedArgument(argument) }
      let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let flag = String(parts[0])
      var value = parts.count > 1 ? String(parts[1]) : nil
      let declaration = flags[flag]
      guard declaration != nil || flag == "--config" else {
        let known = declarations.map(\.flag) + Self.actions.keys.filter { $0.hasPrefix("--") } + ["--config"]
        throw .unknownKey(written: flag, source: .flags, nearest: NearestName.find(flag, among: known))
      }
      if value == nil, case .boolean? = declaration?.defaultValue { value = "true" }
      if value == nil, index < arguments.count {
        value = arguments[index]
        index += 1
      }
      guard let value else { throw .missingValue(written: flag) }
      if let declaration {
        values[declaration.name] = value
      } else {
        file = value
      }
    }
  }
}
