internal import JSON

/// The JSON configuration file, flattened to keys and values.
enum ConfigurationFile {
  /// Reads and parses the file; the keys are not checked yet.
  static func load(_ path: String) throws(ConfigurationError) -> [(name: String, value: ConfigurationValue)] {
    let bytes = try FileContents.read(path)
    let document: JSONValue
    do throws(JSONError) {
      document = try JSONValue(parsing: bytes)
    } catch {
      throw .file(path: path, reason: "not JSON: \(error)")
    }
    guard case .object(let members) = document else {
      throw .file(path: path, reason: "must hold one JSON object")
    }
    var values: [(String, ConfigurationValue)] = []
    try flatten(members, prefix: "", path, into: &values)
    return values
  }

  private static func flatten(
    _ members: [JSONValue.Member],
    prefix: String,
    _ path: String,
    into values: inout [(String, ConfigurationValue)]
  ) throws(ConfigurationError) {
    for member in members {
      let name = prefix + member.name
      switch member.value {
      case .object(let inner): try flatten(inner, prefix: name + ".", path, into: &values)
      case .string(let text): values.append((name, .string(text)))
      case .integer(let number): values.append((name, .integer(Int(number))))
      case .bool(let flag): values.append((name, .boolean(flag)))
      case .array(let elements):
        let texts = elements.compactMap(\.string)
        guard texts.count == elements.count else { throw .invalidValue(key: name, reason: "must be a list of texts") }
        values.append((name, .strings(texts)))
      case .number: throw .invalidValue(key: name, reason: "must be a whole number")
      // Said outright, null means the default: the key is as good as absent, but it must still be a known one.
      case .null: throw .invalidValue(key: name, reason: "must have a value; leave the key out for the default")
      }
    }
  }
}
