import ArgumentParser
import Glibc

/// A password, from a file or typed: never an argument, which every user of the machine could read.
struct PasswordOption: ParsableArguments {
  @Option(help: ArgumentHelp("Read the password from a file's first line; - is standard input.", valueName: "path"))
  var passwordFile: String?

  /// - Parameter isNew: whether it is only being chosen: typed, it is asked for twice.
  func password(isNew: Bool = false) throws(CommandFailure) -> String {
    guard let passwordFile else {
      let typed = try typed("Password:")
      if isNew, try self.typed("The same again:") != typed {
        throw CommandFailure(.invalid, "the two are not the same")
      }
      return typed
    }
    var file = try InputFile(passwordFile)
    guard let line = try file.line(), !line.isEmpty else {
      throw CommandFailure(.invalid, "\(passwordFile): the first line is empty")
    }
    guard let text = String(validating: line, as: UTF8.self) else {
      throw CommandFailure(.invalid, "\(passwordFile): not UTF-8")
    }
    return text
  }

  private func typed(_ prompt: String) throws(CommandFailure) -> String {
    guard isatty(STDIN_FILENO) == 1 else {
      throw CommandFailure(
        .usage,
        "nobody is there to type the password",
        hint: "--password-file names the file that holds it; - is standard input"
      )
    }
    Output.warn(prompt)
    guard let line = try SilentTerminal.line(), !line.isEmpty else {
      throw CommandFailure(.invalid, "no password was typed")
    }
    return line
  }
}
