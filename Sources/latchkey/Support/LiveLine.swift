import Glibc

/// The last line of a terminal, written anew while something is waited for. On standard error, so that results can be
/// read by another program meanwhile.
struct LiveLine {
  let isTerminal = isatty(STDERR_FILENO) == 1

  /// Only on a terminal, and no more than fits one line of it: what has wrapped cannot be written anew.
  func show(_ text: String) {
    guard isTerminal else { return }
    write("\r\u{1B}[K\(Layout.cut(TerminalText.line(text), columns: columns - 1))")
  }

  /// How wide the terminal is; 80 where it does not say.
  var columns: Int { Terminal.size(STDERR_FILENO)?.columns ?? 80 }

  /// A question of ours, whose answer is typed behind it.
  func ask(_ text: String) { write(TerminalText.line(text)) }

  func clear() { show("") }

  /// A line that stays, where there is no terminal to write anew.
  func keep(_ text: String) {
    if !isTerminal { write(TerminalText.line(text) + "\n") }
  }

  private func write(_ text: String) {
    // write reads the array's bytes and keeps nothing; a lost progress line is no loss.
    _ = unsafe Array(text.utf8).withUnsafeBytes { unsafe Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
