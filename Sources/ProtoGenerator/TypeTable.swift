/// Where each message and enum of a schema lives in Swift, and what they are made of.
struct TypeTable {
  private var swiftNames: [String: String] = [:]
  private var messages: [String: Schema.Message] = [:]
  private var enums: [String: Schema.Enum] = [:]

  /// Errors: a message that contains itself. protobuf-c decodes nested messages without a depth limit, so that such a
  /// type would let a peer choose how deep our stack gets.
  init(_ schema: Schema) throws(GeneratorError) {
    for file in schema.files {
      let namespace = SwiftName.namespace(file.package)
      for value in file.enums { add(value, in: namespace) }
      for message in file.messages { add(message, in: namespace) }
    }
    var finished: Set<String> = []
    for name in messages.keys.sorted() { try check(name, above: [], &finished) }
  }

  func swiftName(_ fullName: String) -> String { swiftNames[fullName] ?? fullName }

  /// The case of an enum that stands for an absent field, as it is written in Swift.
  func zeroCase(_ fullName: String) -> String? {
    guard let type = enums[fullName], let zero = type.values.first(where: { $0.number == 0 }) else { return nil }
    return SwiftName.escaped(SwiftName.enumCase(zero.name, of: type.name))
  }

  private mutating func add(_ value: Schema.Enum, in scope: String) {
    swiftNames[value.fullName] = "\(scope).\(SwiftName.escaped(value.name))"
    enums[value.fullName] = value
  }

  private mutating func add(_ message: Schema.Message, in scope: String) {
    let name = "\(scope).\(SwiftName.escaped(message.name))"
    swiftNames[message.fullName] = name
    messages[message.fullName] = message
    for nested in message.enums { add(nested, in: name) }
    for nested in message.messages { add(nested, in: name) }
  }

  private func check(_ name: String, above: [String], _ finished: inout Set<String>) throws(GeneratorError) {
    if finished.contains(name) { return }
    guard !above.contains(name) else {
      throw GeneratorError("\(name) contains itself: recursive messages are not supported")
    }
    for field in messages[name]?.fields ?? [] {
      if case .message(let type) = field.kind { try check(type, above: above + [name], &finished) }
    }
    finished.insert(name)
  }
}
