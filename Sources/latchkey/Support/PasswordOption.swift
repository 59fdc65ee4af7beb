import ArgumentParser
import Glibc

/// A password, from a file or typed where nobody sees it.
struct PasswordOption: ParsableArguments {
  @Option(help: ArgumentHelp("Read the password from a file's first line; - is standard input.", valueName: "path"))
  var passwordFile: String?

  /// - Parameter isNew: whether it is only being chosen: typed, it is asked for twice.
  func password(isNew: Bool = false) throws(CommandFailure) -> String {
    try Self.read(passwordFile, "password", option: "--password-file", isNew: isNew)
  }

  /// For what needs none: nobody is asked to type one. Empty without the option.
  func ifGiven() throws(CommandFailure) -> String {
    passwordFile == nil ? "" : try password()
  }

  /// - Parameters:
  ///   - what: as the prompt and the errors call it.
  ///   - isNew: whether it is only being chosen: typed, it is asked for twice.
  static func read(
    _ path: String?, _ what: String, option: String, isNew: Bool = false
  ) throws(CommandFailure) -> String {
    guard let path else {
      let first = try typed(what, option: option, prompt: "\(what.prefix(1).uppercased())\(what.dropFirst()):")
      if isNew, try typed(what, option: option, prompt: "The same again:") != first {
        throw CommandFailure(.invalid, "the two are not the same")
      }
      return first
    }
    var file = try InputFile(path)
    guard let line = try file.line(), !line.isEmpty else {
      throw CommandFailure(.invalid, "\(path): the first line is empty")
    }
    guard let text = String(validating: line, as: UTF8.self) else {
      throw CommandFailure(.invalid, "\(path): not UTF-8")
    }
    return text
  }

  private static func typed(_ what: String, option: String, prompt: String) throws(CommandFailure) -> String {
    guard isatty(STDIN_FILENO) == 1 else {
      throw CommandFailure(
        .usage,
        "nobody is there to type the \(what)",
        hint: "\(option) names the file that holds it; - is standard input"
      )
    }
    Output.warn(prompt)
    guard let line = try SilentTerminal.line(), !line.isEmpty else {
      throw CommandFailure(.invalid, "no \(what) was typed")
    }
    return line
  }
}

/// The password that is to be the account's.
struct NewPasswordOption: ParsableArguments {
  @Option(help: ArgumentHelp("Read the new password from a file's first line; - is standard input.", valueName: "path"))
  var newPasswordFile: String?

  @Flag(help: "Let the account's other sessions go on.")
  var keepOthers = false

  func password() throws(CommandFailure) -> String {
    try PasswordOption.read(newPasswordFile, "new password", option: "--new-password-file", isNew: true)
  }

  static func sentence(_ ended: Int) -> String {
    ended == 0 ? "No other session ended." : "\(ended) other session\(ended == 1 ? "" : "s") ended."
  }
}
