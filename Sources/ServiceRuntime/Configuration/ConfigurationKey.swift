/// A key with the type of its values: a property of a service's ``ConfigurationKeys``, or one of ``CommonKeys``.
package struct ConfigurationKey<Value: Sendable>: Sendable {
  package let declaration: ConfigurationDeclaration

  package var name: String { declaration.name }

  /// Any key: `parse` turns what was written into a value, or says what is wrong with it.
  package init(
    _ name: String,
    default defaultValue: ConfigurationValue,
    isSecret: Bool = false,
    help: String,
    parse: @escaping @Sendable (ConfigurationValue) throws(ConfigurationError) -> Value
  ) {
    declaration = ConfigurationDeclaration(
      name: name,
      help: help,
      defaultValue: defaultValue,
      isSecret: isSecret,
      validate: { value throws(ConfigurationError) in try parse(value) }
    )
  }
}

extension ConfigurationKey where Value == String {
  package static func string(
    _ name: String,
    default defaultValue: String,
    isSecret: Bool = false,
    help: String
  ) -> Self {
    Self(name, default: .string(defaultValue), isSecret: isSecret, help: help) { value throws(ConfigurationError) in
      guard case .string(let text) = value else { throw .invalidValue(key: name, reason: "must be text") }
      return text
    }
  }
}

extension ConfigurationKey where Value == String? {
  /// Text that may be absent: empty means none.
  package static func optionalString(_ name: String, isSecret: Bool = false, help: String) -> Self {
    Self(name, default: .string(""), isSecret: isSecret, help: help) { value throws(ConfigurationError) in
      guard case .string(let text) = value else { throw .invalidValue(key: name, reason: "must be text") }
      return text.isEmpty ? nil : text
    }
  }
}

extension ConfigurationKey where Value == Int {
  package static func integer(
    _ name: String,
    default defaultValue: Int,
    in range: ClosedRange<Int>,
    help: String
  ) -> Self {
    Self(name, default: .integer(defaultValue), help: help) { value throws(ConfigurationError) in
      guard case .integer(let number) = value, range.contains(number) else {
        throw .invalidValue(
          key: name,
          reason: "must be a whole number from \(range.lowerBound) to \(range.upperBound)"
        )
      }
      return number
    }
  }
}

extension ConfigurationKey where Value == Bool {
  package static func boolean(_ name: String, default defaultValue: Bool, help: String) -> Self {
    Self(name, default: .boolean(defaultValue), help: help) { value throws(ConfigurationError) in
      guard case .boolean(let flag) = value else { throw .invalidValue(key: name, reason: "must be true or false") }
      return flag
    }
  }
}

extension ConfigurationKey where Value == Duration {
  /// A length of time with its unit: `250ms`, `30s`, `15m`, `12h` or `30d`.
  package static func duration(
    _ name: String,
    default defaultValue: Duration,
    in range: ClosedRange<Duration>,
    help: String
  ) -> Self {
    Self(name, default: .string(ConfigurationDuration.text(defaultValue)), help: help) {
      value throws(ConfigurationError) in
      guard case .string(let text) = value, let duration = ConfigurationDuration.parse(text) else {
        throw .invalidValue(key: name, reason: "must be a time with its unit, such as 250ms, 30s, 15m, 12h or 30d")
      }
      guard range.contains(duration) else {
        let (low, high) = (ConfigurationDuration.text(range.lowerBound), ConfigurationDuration.text(range.upperBound))
        throw .invalidValue(key: name, reason: "must be from \(low) to \(high)")
      }
      return duration
    }
  }
}

extension ConfigurationKey where Value == [String] {
  /// Several texts: an array in the file, separated by commas elsewhere.
  package static func strings(_ name: String, default defaultValue: [String] = [], help: String) -> Self {
    Self(name, default: .strings(defaultValue), help: help) { value throws(ConfigurationError) in
      guard case .strings(let texts) = value else { throw .invalidValue(key: name, reason: "must be a list of texts") }
      return texts
    }
  }
}

extension ConfigurationKey where Value: CaseIterable & RawRepresentable, Value.RawValue == String {
  /// One of a few words.
  package static func choice(_ name: String, default defaultValue: Value, help: String) -> Self {
    Self(name, default: .string(defaultValue.rawValue), help: help) { value throws(ConfigurationError) in
      guard case .string(let text) = value, let choice = Value(rawValue: text) else {
        throw .invalidValue(
          key: name,
          reason: "must be one of " + Value.allCases.map(\.rawValue).joined(separator: ", ")
        )
      }
      return choice
    }
  }
}
