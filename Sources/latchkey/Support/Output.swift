import Cryptography
import Glibc

/// What a command says: sentences for a person, or JSON documents for a script, one a line.
///
/// What cannot be written to standard output ends the process with `fault`: a script must not take half an answer, or
/// none, for a whole one.
struct Output {
  let json: Bool
  var fault = CommandFailure.Status.file.rawValue

  /// The command's result: `text` for people, `document` for scripts.
  func result(_ text: @autoclosure () -> String, _ document: @autoclosure () -> JSONValue) {
    if json { write(document().line + "\n") } else { progress(text()) }
  }

  /// A result that is to be taken as it stands: no terminal is too narrow for it.
  func verbatim(_ text: @autoclosure () -> String, _ document: @autoclosure () -> JSONValue) {
    write(json ? document().line + "\n" : TerminalText.lines(ending(text())))
  }

  /// Progress on the way to a result: people see it, scripts do not.
  func progress(_ text: String) {
    guard !json else { return }
    let lines = Layout.lines(TerminalText.lines(ending(text)), columns: Self.columns)
    write(Style.rendered(lines, on: Style.isOn(STDOUT_FILENO)))
  }

  /// How wide the terminal is that results go to; nil where they go elsewhere.
  static var columns: Int? { Terminal.size(STDOUT_FILENO)?.columns }

  /// A picture of our own, with the colours that its terminal text holds.
  func drawing(_ text: String) {
    if !json { write(ending(text)) }
  }

  /// To standard error, whatever the format.
  static func warn(_ text: String) {
    let lines = Layout.lines(
      TerminalText.lines(text.hasSuffix("\n") ? text : text + "\n"), columns: Terminal.size(STDERR_FILENO)?.columns)
    // Who cannot be told has nobody to tell it to.
    _ = write(Style.rendered(lines, on: Style.isOn(STDERR_FILENO)), to: STDERR_FILENO)
  }

  func failure(_ failure: CommandFailure) {
    guard json else {
      var text = "\(Style.alarm("latchkey:")) \(TerminalText.line(failure.message))"
      let labels = [failure.code, failure.reason].compactMap(\.self)
      if !labels.isEmpty { text += " [\(TerminalText.line(labels.joined(separator: ", ")))]" }
      for field in failure.fields where !failure.message.hasPrefix("\(field.path):") {
        text += "\n  \(TerminalText.line("\(field.path): \(field.problem)"))"
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
      JSONValue.Member("hint", failure.hint.map { .string(Style.rendered($0, on: false)) } ?? .null),
      JSONValue.Member("exit_status", .integer(Int64(failure.status.rawValue))),
    ])
    write((["error": error] as JSONValue).line + "\n")
  }

  static func milliseconds(_ duration: Duration) -> Int64 {
    duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
  }

  /// Such as `2 s`, `250 ms`.
  static func seconds(_ duration: Duration) -> String {
    let milliseconds = milliseconds(duration)
    return milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(milliseconds) ms"
  }

  /// Columns under headings, or what fits a narrow terminal.
  ///
  /// - Parameter nothing: what is said where there is no row.
  static func table(_ headings: [String], _ rows: [[String]], nothing: String = "") -> String {
    rows.isEmpty ? nothing : Layout.table(headings, rows, columns: columns)
  }

  private func ending(_ text: String) -> String {
    text.isEmpty || text.hasSuffix("\n") ? text : text + "\n"
  }

  private func write(_ text: String) {
    guard let code = Self.write(text, to: STDOUT_FILENO) else { return }
    // Whoever closed the pipe has read what they wanted, and wants no word of it.
    if code != EPIPE { Self.warn("latchkey: cannot write to standard output: \(SystemError.text(code))") }
    // Not `exit`: other threads go on until the process is gone.
    _exit(fault)
  }

  /// Writes all of it at once, so that lines of several processes do not mix. Answers `errno` when that fails.
  private static func write(_ text: String, to file: Int32) -> Int32? {
    let bytes = Array(text.utf8)
    var written = 0
    while written < bytes.count {
      let count = unsafe bytes.withUnsafeBytes { buffer in
        // The source range lies within the array: `written` is below its count.
        unsafe Glibc.write(file, buffer.baseAddress?.advanced(by: written), buffer.count - written)
      }
      if count < 0 {
        if errno == EINTR { continue }
        return errno
      }
      written += count
    }
    return nil
  }
}
