import ArgumentParser

/// A key's thumbprint as an argument. One in 64 begins with a hyphen, and is taken all the same.
struct KeyArgument: ExpressibleByArgument {
  let thumbprint: String

  init?(argument: String) {
    thumbprint = argument.hasPrefix(Self.mark) ? String(argument.dropFirst()) : argument
  }

  private static let mark = "="

  /// The words of a command line with a mark before each thumbprint that would pass for a flag, where the command takes
  /// thumbprints. No flag with one hyphen is so long: SHA-256 in base64url has 43 letters.
  static func marking(_ words: some Sequence<String>) -> [String] {
    let words = Array(words)
    guard words.first == DeviceCommandGroup.configuration.commandName else { return words }
    return words.map { word in
      let isThumbprint =
        word.utf8.count == 43 && word.hasPrefix("-")
        && word.utf8.allSatisfy { byte in
          switch byte {
          case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
          default: false
          }
        }
      return isThumbprint ? mark + word : word
    }
  }
}
