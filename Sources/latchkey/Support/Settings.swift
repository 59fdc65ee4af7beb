import LatchkeyClient

/// What one run of the tool works with.
struct Settings: Sendable {
  let client: ClientConfiguration
  let profileDirectory: String
  /// The flags that chose the profile and the services, as whoever pastes another command has to repeat them.
  let repeated: [String]
  /// Which certificate authorities are trusted; nil for cleartext.
  let trust: String?

  /// Another command for the same profile and services, as a shell takes it.
  func command(_ words: String) -> String { Style.strong(Self.command(words, repeated)) }

  /// The same for something by its id, which may begin as a flag does.
  func command(_ words: String, of id: String) -> String {
    guard id.hasPrefix("-") else { return command("\(words) \(Self.quoted(id))") }
    return Style.strong("\(Self.command(words, repeated)) -- \(Self.quoted(id))")
  }

  static func command(_ words: String, _ repeated: [String]) -> String {
    (["latchkey \(words)"] + repeated.map(quoted)).joined(separator: " ")
  }

  /// A word as a shell takes it.
  static func quoted(_ word: String) -> String {
    let isPlain =
      !word.isEmpty
      && word.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
          UInt8(ascii: "/"), UInt8(ascii: ":"), UInt8(ascii: "@"), UInt8(ascii: "+"), UInt8(ascii: "="),
          UInt8(ascii: ","), UInt8(ascii: "%"):
          true
        default: false
        }
      }
    return isPlain
      ? word : "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
  }

  var secrets: FileSecretStore { FileSecretStore(directory: profileDirectory) }
}
