import ArgumentParser
import Glibc

/// When what is printed has colours.
enum ColorChoice: String, ExpressibleByArgument, CaseIterable {
  case auto
  case always
  case never
}

struct ColorOption: ParsableArguments {
  /// ``Style`` reads it from the command line itself: what is wrong with the rest of that is said in colour too.
  @Option(
    help: ArgumentHelp(
      "Colours: auto (on a terminal, unless NO_COLOR is set), always or never. Without them a QR code is readable on a "
        + "dark background only.",
      valueName: "when"
    )
  )
  var color: ColorChoice = .auto
}

/// Emphasis. Until a text is written, marks stand for it, which count as no width; where there are no colours they go.
enum Style {
  /// Headings, and commands to paste. Bold is readable on any background.
  static func strong(_ text: String) -> String { "\(strongMark)\(text)\(endMark)" }

  /// What went wrong, and what to be careful of.
  static func alarm(_ text: String) -> String { "\(alarmMark)\(text)\(endMark)" }

  // Private characters of the last plane, which no text of others has when it is shown: TerminalText.line takes them out.
  private static let strongMark: Character = "\u{10FFF0}"
  private static let alarmMark: Character = "\u{10FFF1}"
  private static let endMark: Character = "\u{10FFF2}"

  private static let sequences = [strongMark: "\u{1B}[1m", alarmMark: "\u{1B}[1;31m", endMark: "\u{1B}[0m"]

  static func isMark(_ character: Character) -> Bool { sequences[character] != nil }

  /// Whether what follows is marked; nil where a character is no mark.
  static func begins(_ character: Character) -> Bool? { isMark(character) ? character != endMark : nil }

  static func isMark(_ scalar: Unicode.Scalar) -> Bool { (0x10FFF0...0x10FFF2).contains(scalar.value) }

  /// Whether a file is written to in colours.
  static func isOn(_ file: Int32) -> Bool {
    switch choice {
    case .always: true
    case .never: false
    case .auto:
      Terminal.isOne(file) && DeviceOptions.environment("NO_COLOR") == nil
        && DeviceOptions.environment("TERM") != "dumb"
    }
  }

  /// A text with escape sequences for its marks, or without either.
  static func rendered(_ text: String, on isOn: Bool) -> String {
    guard text.unicodeScalars.contains(where: isMark) else { return text }
    return text.reduce(into: "") { shown, character in
      if let sequence = sequences[character] {
        if isOn { shown += sequence }
      } else {
        shown.append(character)
      }
    }
  }

  private static let choice: ColorChoice = {
    let words = CommandLine.arguments
    for (index, word) in words.enumerated() {
      if word == "--" { break }
      if word.hasPrefix("--color=") { return ColorChoice(rawValue: String(word.dropFirst(8))) ?? .auto }
      if word == "--color", index + 1 < words.count { return ColorChoice(rawValue: words[index + 1]) ?? .auto }
    }
    return .auto
  }()
}
