internal import Glibc
internal import JSON

/// How an event of the log is written.
package enum LogFormat: String, Sendable, CaseIterable {
  /// Text where a person reads it at a terminal, JSON elsewhere.
  case auto
  case json
  case text

  /// What `auto` comes to, for standard error.
  package var resolved: LogFormat {
    self == .auto ? (isatty(STDERR_FILENO) == 1 ? .text : .json) : self
  }

  /// One line with its newline: the time of day, the level, the message, and the fields as `name=value`.
  ///
  /// - Parameter members: time, level, logger and message, and then the fields.
  static func textLine(_ members: [JSONValue.Member], isColoured: Bool) -> [UInt8] {
    var words: [String] = []
    for member in members {
      switch member.name {
      // 2026-11-21T03:25:27.123Z
      case "time": words.append(String((member.value.string ?? "").dropFirst(11).prefix(12)))
      case "level": words.append(level(member.value.string ?? "", isColoured: isColoured))
      case "logger": break
      case "message": words.append(plain(member.value.string ?? "", isWord: false) + " ")
      default: words.append("\(plain(member.name, isWord: true))=\(value(member.value))")
      }
    }
    return Array(words.joined(separator: " ").utf8) + [0x0A]
  }

  private static func level(_ name: String, isColoured: Bool) -> String {
    let text = name.uppercased() + String(repeating: " ", count: max(0, 8 - name.count))
    guard isColoured else { return text }
    let colour =
      switch name {
      case "warning": 33
      case "error", "critical": 31
      case "notice", "info": 32
      default: 90
      }
    return "\u{1B}[\(colour)m\(text)\u{1B}[0m"
  }

  private static func value(_ value: JSONValue) -> String {
    value.string.map { plain($0, isWord: true) }
      ?? plain(String(decoding: value.encoded(), as: UTF8.self), isWord: false)
  }

  /// The text with escapes in the place of whatever could end the line or steer a terminal (CWE-117, CWE-150). As a
  /// word it stands between quotation marks, unless none of it could be taken for something else.
  private static func plain(_ text: String, isWord: Bool) -> String {
    if isWord, !text.isEmpty, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x3D }) {
      return text
    }
    var escaped = ""
    for scalar in text.unicodeScalars {
      switch scalar.value {
      case 0..<0x20, 0x7F...0x9F, 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069:
        escaped += "\\u{\(String(scalar.value, radix: 16))}"
      case 0x22 where isWord, 0x5C where isWord: escaped += "\\\(scalar)"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return isWord ? "\"\(escaped)\"" : escaped
  }
}
