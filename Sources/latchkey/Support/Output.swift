import Cryptography
import Glibc

/// What a command says: sentences for a person, or one JSON document for a script.
struct Output {
  let json: Bool

  /// The command's result: `text` for people, `document` for scripts.
  func result(_ text: @autoclosure () -> String, _ document: @autoclosure () -> JSONValue) {
    Self.write(json ? String(decoding: document().encoded(), as: UTF8.self) + "\n" : ending(text()))
  }

  /// Progress on the way to a result: people see it, scripts do not.
  func progress(_ text: String) {
    if !json { Self.write(ending(text)) }
  }

  /// To standard error, whatever the format.
  static func warn(_ text: String) {
    write(text.hasSuffix("\n") ? text : text + "\n", to: STDERR_FILENO)
  }

  func failure(_ failure: CommandFailure) {
    guard json else {
      var text = "latchkey: \(failure.message)"
      let labels = [failure.code, failure.reason].compactMap(\.self)
      if !labels.isEmpty { text += " [\(labels.joined(separator: ", "))]" }
      for field in failure.fields where !failure.message.hasPrefix("\(field.path):") {
        text += "\n  \(field.path): \(field.problem)"
      }
      if let hint = failure.hint { text += "\n  \(hint)" }
      return Self.warn(text)
    }
    let error: JSONValue = .object([
      JSONValue.Member("message", .string(failure.message)),
      JSONValue.Member("code", failure.code.map { .string($0) } ?? .null),
      JSONValue.Member("reason", failure.reason.map { .string($0) } ?? .null),
      JSONValue.Member(
        "fields",
        .array(failure.fields.map { ["path": .string($0.path), "problem": .string($0.problem)] })
      ),
      JSONValue.Member("retry_after_ms", failure.retryAfter.map { .integer(Self.milliseconds($0)) } ?? .null),
      JSONValue.Member("hint", failure.hint.map { .string($0) } ?? .null),
      JSONValue.Member("exit_status", .integer(Int64(failure.status.rawValue))),
    ])
    Self.write(String(decoding: (["error": error] as JSONValue).encoded(), as: UTF8.self) + "\n")
  }

  static func milliseconds(_ duration: Duration) -> Int64 {
    duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
  }

  /// Such as `2 s`, `250 ms`.
  static func seconds(_ duration: Duration) -> String {
    let milliseconds = milliseconds(duration)
    return milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(milliseconds) ms"
  }

  /// Columns under headings, the first to the left and the others to the right.
  static func table(_ headings: [String], _ rows: [[String]]) -> String {
    let widths = headings.indices.map { column in
      ([headings] + rows).map { $0[column].count }.max() ?? 0
    }
    return ([headings] + rows).map { row in
      row.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - row[column].count)
        return column == 0 ? row[column] + padding : padding + row[column]
      }.joined(separator: "  ")
    }.joined(separator: "\n")
  }

  private func ending(_ text: String) -> String {
    text.isEmpty || text.hasSuffix("\n") ? text : text + "\n"
  }

  /// Writes all of it at once, so that lines of several processes do not mix.
  private static func write(_ text: String, to file: Int32 = STDOUT_FILENO) {
    let bytes = Array(text.utf8)
    var written = 0
    while written < bytes.count {
      let count = unsafe bytes.withUnsafeBytes { buffer in
        // The source range lies within the array: `written` is below its count.
        unsafe Glibc.write(file, buffer.baseAddress?.advanced(by: written), buffer.count - written)
      }
      if count < 0 {
        if errno == EINTR { continue }
        return
      }
      written += count
    }
  }
}
