/// Swift names for proto names.
enum SwiftName {
  /// The namespace of a package: `latchkey.qr.v1` → `QRV1`, `grpc.health.v1` → `HealthV1`, `google.rpc` →
  /// `GoogleRPC`. Who owns a versioned package stays out of its name.
  static func namespace(_ package: String) -> String {
    var parts = package.split(separator: ".").map(String.init)
    if parts.count > 2, let last = parts.last, isVersion(last) { parts.removeFirst() }
    return parts.map { part in
      guard isVersion(part) else { return upperWord(part) }
      return part.hasSuffix("alpha") ? "V\(part.dropFirst().dropLast(5))Alpha" : part.uppercased()
    }.joined()
  }

  /// `device_id` → `deviceID`: acronyms keep one case.
  static func property(_ name: String) -> String {
    let words = name.split(separator: "_").map(String.init)
    guard let first = words.first else { return name }
    return first.lowercased() + words.dropFirst().map(upperWord).joined()
  }

  /// `sign_in_method` → `SignInMethod`.
  static func oneofType(_ name: String) -> String {
    name.split(separator: "_").map { upperWord(String($0)) }.joined()
  }

  /// `SESSION_STATE_PENDING` of `SessionState` → `pending`.
  static func enumCase(_ name: String, of type: String) -> String {
    let prefix = screamingSnake(type) + "_"
    let rest = name.hasPrefix(prefix) ? String(name.dropFirst(prefix.count)) : name
    let property = property(rest.lowercased())
    return property.first?.isNumber == true ? "n" + property : property
  }

  /// `IssueGuest` → `issueGuest`.
  static func method(_ name: String) -> String {
    lowerFirst(name)
  }

  static func lowerFirst(_ name: String) -> String {
    // A leading run of capitals goes down as one, but for its last letter when that begins the next word.
    let run = name.prefix { $0.isUppercase }
    if run.count == name.count { return name.lowercased() }
    let down = max(1, run.count - 1)
    return name.prefix(down).lowercased() + name.dropFirst(down)
  }

  /// A name as it is declared or called: in backticks where Swift has another use for the word.
  static func escaped(_ name: String) -> String {
    reserved.contains(name) ? "`\(name)`" : name
  }

  /// A name as an argument's label, where few words are reserved and backticks around the others draw a warning.
  static func label(_ name: String) -> String {
    ["inout", "let", "var"].contains(name) ? "`\(name)`" : name
  }

  private static func upperWord(_ word: String) -> String {
    let lower = word.lowercased()
    if acronyms.contains(lower) { return lower.uppercased() }
    return lower.prefix(1).uppercased() + lower.dropFirst()
  }

  private static func isVersion(_ part: String) -> Bool {
    guard part.first == "v", let second = part.dropFirst().first else { return false }
    return second.isNumber
  }

  private static func screamingSnake(_ name: String) -> String {
    var result = ""
    var previous: Character = "_"
    for character in name {
      if character.isUppercase && previous != "_" && !previous.isUppercase { result += "_" }
      result += character.uppercased()
      previous = character
    }
    return result
  }

  private static let acronyms: Set<String> = [
    "grpc", "http", "https", "id", "ip", "json", "jwk", "jwks", "otp", "pkce", "qr", "rpc", "tls", "uri", "url",
  ]

  private static let reserved: Set<String> = [
    "Any", "Protocol", "Self", "Type", "as", "associatedtype", "break", "case", "catch", "class", "continue",
    "default", "defer", "deinit", "do", "else", "enum", "extension", "fallthrough", "false", "fileprivate", "for",
    "func", "guard", "if", "import", "in", "init", "inout", "internal", "is", "let", "nil", "operator",
    "precedencegroup", "private", "protocol", "public", "repeat", "rethrows", "return", "self", "static", "struct",
    "subscript", "super", "switch", "throw", "throws", "true", "try", "typealias", "var", "where", "while",
  ]
}
