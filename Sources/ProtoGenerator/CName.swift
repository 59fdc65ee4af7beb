/// The C names that protoc-c gives: its rules, read from what it writes.
enum CName {
  /// `latchkey.qr.v1.PollSessionRequest` → `Latchkey__Qr__V1__PollSessionRequest`.
  static func type(_ fullName: String) -> String {
    parts(fullName).map(camel).joined(separator: "__")
  }

  /// `latchkey.qr.v1.PollSessionRequest` → `latchkey__qr__v1__poll_session_request`, to which `__init` and the other
  /// functions are added.
  static func function(_ fullName: String) -> String {
    parts(fullName).map(snake).joined(separator: "__")
  }

  /// Members are in lower case; one that is a word of C or C++ gets a `_` behind it. As Swift writes it.
  static func member(_ name: String) -> String {
    let lower = name.lowercased()
    return keywords.contains(lower) ? lower + "_" : SwiftName.escaped(lower)
  }

  private static func parts(_ fullName: String) -> [Substring] {
    fullName.split(separator: ".")
  }

  private static func camel(_ part: Substring) -> String {
    var result = ""
    var nextIsUpper = true
    for character in part {
      if character == "_" {
        nextIsUpper = true
      } else if nextIsUpper {
        result += character.uppercased()
        nextIsUpper = false
      } else {
        result.append(character)
      }
    }
    return result
  }

  private static func snake(_ part: Substring) -> String {
    var result = ""
    var wasUpper = true
    for character in part {
      let isUpper = character.isUppercase
      if isUpper && !wasUpper { result += "_" }
      result += character.lowercased()
      wasUpper = isUpper
    }
    return result
  }

  private static let keywords: Set<String> = [
    "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "class", "compl",
    "const", "const_cast", "continue", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
    "namespace", "new", "not", "not_eq", "operator", "or", "or_eq", "private", "protected", "public", "register",
    "reinterpret_cast", "return", "short", "signed", "sizeof", "static", "static_cast", "struct", "switch",
    "template", "this", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using",
    "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
  ]
}
