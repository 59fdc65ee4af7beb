import Cryptography

/// Text as a terminal may be shown it. What a service or another user wrote may hold control characters, by which it
/// would move the cursor, change what was printed before, or answer for the person (CWE-150).
enum TerminalText {
  /// One line: whatever would begin another, or is a control character, appears as U+FFFD.
  static func line(_ text: String) -> String { replacing(text) { isControl($0) || Style.isMark($0) } }

  /// Lines of our own; tabs and the marks of ``Style`` stay as well.
  static func lines(_ text: String) -> String {
    replacing(text) { isControl($0) && $0 != "\n" && $0 != "\t" }
  }

  /// A JSON document with escapes in the place of control characters, which are nowhere but in its texts.
  static func json(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: { isControl($0) && $0 != "\n" && $0 != "\t" }) else { return text }
    var escaped = ""
    for scalar in text.unicodeScalars {
      guard isControl(scalar), scalar != "\n", scalar != "\t" else {
        escaped.unicodeScalars.append(scalar)
        continue
      }
      let digits = String(scalar.value, radix: 16)
      escaped += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
    }
    return escaped
  }

  private static func replacing(_ text: String, _ isUnwanted: (Unicode.Scalar) -> Bool) -> String {
    guard text.unicodeScalars.contains(where: isUnwanted) else { return text }
    var shown = String.UnicodeScalarView()
    for scalar in text.unicodeScalars { shown.append(isUnwanted(scalar) ? "\u{FFFD}" : scalar) }
    return String(shown)
  }

  /// C0 and C1, DEL, the separators of lines and paragraphs, and what turns the direction of writing.
  private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7F...0x9F, 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }
}

extension JSONValue {
  /// The document on one line.
  var line: String { TerminalText.json(String(decoding: encoded(), as: UTF8.self)) }
}
