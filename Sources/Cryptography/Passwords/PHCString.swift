import LatchkeyModel

/// A stored Argon2id hash in PHC form: `$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>`.
///
/// Only this form with usable parameters is ever handed to libargon2, which would otherwise allocate what the text asks
/// for.
struct PHCString {
  let parameters: Argon2Parameters

  /// Nil for any other form.
  init?(_ text: String) {
    guard text.utf8.count <= Limits.phcBytes else { return nil }
    let parts = text.utf8.split(separator: UInt8(ascii: "$"), omittingEmptySubsequences: false)
    guard parts.count == 6, parts[0].isEmpty, parts[1].elementsEqual("argon2id".utf8),
      parts[2].elementsEqual("v=19".utf8), Self.isBase64(parts[4]), Self.isBase64(parts[5])
    else { return nil }
    let costs = parts[3].split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
    guard costs.count == 3, let memory = Self.cost("m=", costs[0]), let passes = Self.cost("t=", costs[1]),
      let lanes = Self.cost("p=", costs[2])
    else { return nil }
    parameters = Argon2Parameters(memoryKiB: memory, passes: passes, lanes: lanes)
    guard parameters.areUsable else { return nil }
  }

  /// A hash of no password: verifying against it costs what any other costs and fails.
  static func dummy(_ parameters: Argon2Parameters) -> String {
    let salt = base64(SecureRandom.bytes(PasswordHasher.saltByteCount))
    let hash = base64(SecureRandom.bytes(PasswordHasher.hashByteCount))
    return "$argon2id$v=19$m=\(parameters.memoryKiB),t=\(parameters.passes),p=\(parameters.lanes)$\(salt)$\(hash)"
  }

  private static func cost(_ name: String, _ text: Substring.UTF8View) -> UInt32? {
    guard text.starts(with: name.utf8) else { return nil }
    return UInt32(String(decoding: text.dropFirst(name.utf8.count), as: UTF8.self))
  }

  private static func isBase64(_ text: Substring.UTF8View) -> Bool {
    !text.isEmpty
      && text.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"):
          true
        default: false
        }
      }
  }

  /// PHC strings use the standard alphabet without padding.
  private static func base64(_ bytes: [UInt8]) -> String {
    let url = Base64URL.encode(bytes)
    return String(url.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
  }
}
