import ArgumentParser
import Glibc

/// Questions to a person at a terminal. Where nobody sits at one, or a script asked for JSON, nothing is asked.
enum Prompt {
  static func isPossible(_ output: Output) -> Bool {
    !output.json && Terminal.isOne(STDIN_FILENO) && Terminal.isOne(STDERR_FILENO)
  }

  /// Whether the answer begins with a y. Nothing typed is a no.
  static func agrees(to question: String) -> Bool {
    answer("\(question) [y/N] ").map { $0.lowercased().hasPrefix("y") } ?? false
  }

  /// One of the choices by its name or the beginning of it; nil for anything else.
  static func choice(_ question: String, among choices: [String]) -> String? {
    guard let typed = answer("\(question) [\(choices.joined(separator: "/"))] ")?.lowercased(), !typed.isEmpty else {
      return nil
    }
    return choices.first { $0.hasPrefix(typed) }
  }

  static func text(_ question: String) -> String { answer(question) ?? "" }

  /// Nil at the end of input.
  private static func answer(_ question: String) -> String? {
    LiveLine().ask(question)
    return readLine()?.trimmed
  }
}

extension String {
  fileprivate var trimmed: String {
    var text = Substring(self)
    while text.first?.isWhitespace == true { text.removeFirst() }
    while text.last?.isWhitespace == true { text.removeLast() }
    return String(text)
  }
}

/// What cannot be taken back is asked for twice at a terminal.
struct ConsentOptions: ParsableArguments {
  @Flag(help: "Do not ask whether it is meant.")
  var yes = false

  /// Ends the command unless it is meant.
  func require(_ question: String, _ output: Output) throws(CommandFailure) {
    guard !yes, Prompt.isPossible(output), !Prompt.agrees(to: question) else { return }
    throw CommandFailure(.undecided, "nothing was done")
  }
}
