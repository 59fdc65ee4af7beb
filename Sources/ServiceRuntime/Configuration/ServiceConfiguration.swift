internal import Configuration
package import JSON

/// The effective values of every declared key: defaults < JSON file < environment < flags. With `dev`, a service's values
/// for development stand in the place of some defaults.
///
/// Precedence and conversion are swift-configuration's. Its providers answer for the keys that are asked for and cannot
/// list the keys that were written, so the refusal of unknown keys stands in front of them: the file, the environment
/// and the flags are read here, checked against the declarations, and only then handed to it.
package struct ServiceConfiguration: Sendable {
  private let declarations: [ConfigurationDeclaration]
  private let effective: [String: ConfigurationValue]
  private let values: [String: any Sendable]

  /// The value of a declared key.
  package subscript<Value: Sendable>(key: ConfigurationKey<Value>) -> Value {
    guard let value = values[key.name] as? Value else {
      preconditionFailure("\(key.name) is read but not declared in the service's description")
    }
    return value
  }

  /// - Parameters:
  ///   - declarations: every key of the service.
  ///   - file: what the file holds, flattened; empty without one.
  ///   - environment: the variables of the process; those that begin with `LATCHKEY_` are ours.
  ///   - flags: values by name.
  ///   - development: what takes the place of defaults when `dev` is set.
  init(
    declarations: [ConfigurationDeclaration],
    file: [(name: String, value: ConfigurationValue)],
    environment: [String: String],
    flags: [String: String],
    development: [String: ConfigurationValue] = [:]
  ) throws(ConfigurationError) {
    self.declarations = declarations
    // In the file a key is a value or an object, not both.
    let names = Set(declarations.map(\.name))
    for name in names {
      precondition(!names.contains { $0.hasPrefix(name + ".") }, "\(name) is a key, and the beginning of another")
    }
    var providers: [any ConfigProvider] = try [
      Self.textProvider(
        Dictionary(
          uniqueKeysWithValues: declarations.compactMap { declaration in
            flags[declaration.name].map { (declaration.environmentName, $0) }
          }
        )
      ),
      Self.textProvider(Self.environmentValues(environment, declarations)),
      InMemoryProvider(name: "file", values: Self.fileValues(file, declarations)),
    ]
    var defaults = Dictionary(
      uniqueKeysWithValues: declarations.map {
        (AbsoluteConfigKey(ConfigKey($0.name)), Self.content($0.defaultValue, isSecret: $0.isSecret))
      }
    )
    if let dev = declarations.first(where: { $0.name == CommonKeys.development.name }), !development.isEmpty {
      let written = ConfigReader(providers: providers + [InMemoryProvider(name: "defaults", values: defaults)])
      if case .boolean(true) = try Self.read(dev, written) {
        for (name, value) in development {
          defaults[AbsoluteConfigKey(ConfigKey(name))] = Self.content(value, isSecret: false)
        }
      }
    }
    providers.append(InMemoryProvider(name: "defaults", values: defaults))
    let reader = ConfigReader(providers: providers)
    var effective: [String: ConfigurationValue] = [:]
    var values: [String: any Sendable] = [:]
    for declaration in declarations {
      let value = try Self.read(declaration, reader)
      effective[declaration.name] = value
      values[declaration.name] = try declaration.validate(value)
    }
    self.effective = effective
    self.values = values
  }

  /// The prefix of our environment variables.
  static let environmentPrefix = "LATCHKEY_"
  /// The variable that names the file, as `--config` does.
  static let fileVariable = "LATCHKEY_CONFIG"

  /// The effective values as one JSON document that the file could hold, secrets redacted.
  package var json: JSONValue {
    func nested(_ entries: [(path: ArraySlice<Substring>, value: JSONValue)]) -> JSONValue {
      var members: [JSONValue.Member] = []
      for entry in entries {
        guard let name = entry.path.first else { continue }
        if entry.path.count == 1 {
          members.append(.init(String(name), entry.value))
        } else if !members.contains(where: { $0.name == name }) {
          let inner = entries.filter { $0.path.first == name && $0.path.count > 1 }
          members.append(.init(String(name), nested(inner.map { ($0.path.dropFirst(), $0.value) })))
        }
      }
      return .object(members)
    }
    return nested(
      declarations.map { declaration in
        (declaration.name.split(separator: ".")[...], Self.printed(effective[declaration.name], declaration))
      }
    )
  }

  private static func printed(_ value: ConfigurationValue?, _ declaration: ConfigurationDeclaration) -> JSONValue {
    switch value {
    case .string(""): ""
    case _ where declaration.isSecret: "[redacted]"
    case .string(let text): .string(text)
    case .integer(let number): .integer(Int64(number))
    case .boolean(let flag): .bool(flag)
    case .strings(let texts): .array(texts.map { .string($0) })
    case nil: .null
    }
  }

  private static func read(
    _ declaration: ConfigurationDeclaration,
    _ reader: ConfigReader
  ) throws(ConfigurationError) -> ConfigurationValue {
    let key = ConfigKey(declaration.name)
    do {
      return switch declaration.defaultValue {
      case .string: .string(try reader.requiredString(forKey: key, isSecret: declaration.isSecret))
      case .integer: .integer(try reader.requiredInt(forKey: key, isSecret: declaration.isSecret))
      case .boolean: .boolean(try reader.requiredBool(forKey: key, isSecret: declaration.isSecret))
      case .strings: .strings(try reader.requiredStringArray(forKey: key, isSecret: declaration.isSecret))
      }
    } catch {
      // The defaults answer for every key, so what failed is the conversion. Its error may repeat the value.
      let kind =
        switch declaration.defaultValue {
        case .string: "text"
        case .integer: "a whole number"
        case .boolean: "true or false"
        case .strings: "a list of texts"
        }
      throw .invalidValue(key: declaration.name, reason: "must be \(kind)")
    }
  }

  /// Flags and variables are both text under a name in capitals.
  private static func textProvider(_ values: [String: String]) -> EnvironmentVariablesProvider {
    EnvironmentVariablesProvider(environmentVariables: values)
  }

  private static func environmentValues(
    _ environment: [String: String],
    _ declarations: [ConfigurationDeclaration]
  ) throws(ConfigurationError) -> [String: String] {
    let known = Set(declarations.map(\.environmentName))
    var values: [String: String] = [:]
    for (name, value) in environment.sorted(by: { $0.key < $1.key })
    where name.hasPrefix(environmentPrefix) && name != fileVariable {
      let short = String(name.dropFirst(environmentPrefix.count))
      guard known.contains(short) else {
        // One environment may serve all services: what another one reads is not for this one to refuse.
        if InstallationKeys.environmentNames.contains(short) { continue }
        let candidates = known.union(InstallationKeys.environmentNames).map { environmentPrefix + $0 } + [fileVariable]
        throw .unknownKey(
          written: name,
          source: .environment,
          nearest: NearestName.find(name, among: candidates.sorted())
        )
      }
      values[short] = value
    }
    return values
  }

  private static func fileValues(
    _ file: [(name: String, value: ConfigurationValue)],
    _ declarations: [ConfigurationDeclaration]
  ) throws(ConfigurationError) -> [AbsoluteConfigKey: ConfigValue] {
    var values: [AbsoluteConfigKey: ConfigValue] = [:]
    for (name, value) in file {
      guard let declaration = declarations.first(where: { $0.name == name }) else {
        throw .unknownKey(
          written: name,
          source: .file,
          nearest: NearestName.find(name, among: declarations.map(\.name))
        )
      }
      values[AbsoluteConfigKey(ConfigKey(name))] = content(value, isSecret: declaration.isSecret)
    }
    return values
  }

  private static func content(_ value: ConfigurationValue, isSecret: Bool) -> ConfigValue {
    switch value {
    case .string(let text): ConfigValue(.string(text), isSecret: isSecret)
    case .integer(let number): ConfigValue(.int(number), isSecret: isSecret)
    case .boolean(let flag): ConfigValue(.bool(flag), isSecret: isSecret)
    case .strings(let texts): ConfigValue(.stringArray(texts), isSecret: isSecret)
    }
  }
}
