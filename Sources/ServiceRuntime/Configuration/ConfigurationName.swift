/// The spellings of a key: `tls.certificateFile` is `TLS_CERTIFICATE_FILE` in the environment, behind the prefix, and
/// `--tls-certificate-file` among the flags.
enum ConfigurationName {
  static func environment(_ name: String) -> String {
    words(name).joined(separator: "_").uppercased()
  }

  static func flag(_ name: String) -> String {
    "--" + words(name).joined(separator: "-").lowercased()
  }

  private static func words(_ name: String) -> [String] {
    var words: [String] = []
    for component in name.split(separator: ".") {
      var word = ""
      for character in component {
        if character.isUppercase, !word.isEmpty {
          words.append(word)
          word = ""
        }
        word.append(character)
      }
      words.append(word)
    }
    return words
  }
}
