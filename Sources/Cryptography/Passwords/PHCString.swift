import LatchkeyModel

/// A stored Argon2id hash in PHC form: `$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>`.
///
/// Only this form with usable parameters is ever handed to libargon2, which would otherwise allocate what the text asks
/// for.
struct PHCString {
  let parameters: Argon2Parameters
  let salt: [UInt8]
  let hash: [UInt8]

  init(_ parameters: Argon2Parameters, salt: [UInt8], hash: [UInt8]) {
    self.parameters = parameters
    self.salt = salt
    self.hash = hash
  }

  /// Nil for any other form.
  init?(_ text: String) {
    guard text.utf8.count <= Limits.phcBytes else { return nil }
    let parts = text.utf8.split(separator: UInt8(ascii: "$"), omittingEmptySubsequences: false)
    guard parts.count == 6, parts[0].isEmpty, parts[1].elementsEqual("argon2id".utf8),
      parts[2].elementsEqual("v=19".utf8), let salt = Self.bytes(parts[4]), let hash = Self.bytes(parts[5]),
      salt.count >= Limits.argon2SaltBytes, hash.count >= Limits.argon2HashBytes
    else { return nil }
    let costs = parts[3].split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
    guard costs.count == 3, let memory = Self.cost("m=", costs[0]), let passes = Self.cost("t=", costs[1]),
      let lanes = Self.cost("p=", costs[2])
    else { return nil }
    self.init(Argon2Parameters(memoryKiB: memory, passes: passes, lanes: lanes), salt: salt, hash: hash)
    guard parameters.areUsable else { return nil }
  }

  /// A hash of no password: verifying against it costs what any other costs and fails.
  static func dummy(_ parameters: Argon2Parameters) -> String {
    let salt = SecureRandom.bytes(PasswordHasher.saltByteCount)
    return PHCString(parameters, salt: salt, hash: SecureRandom.bytes(PasswordHasher.hashByteCount)).text
  }

  /// What is stored.
  var text: String {
    let costs = "m=\(parameters.memoryKiB),t=\(parameters.passes),p=\(parameters.lanes)"
    return "$argon2id$v=19$\(costs)$\(Self.base64(salt))$\(Self.base64(hash))"
  }

  private static func cost(_ name: String, _ text: Substring.UTF8View) -> UInt32? {
    guard text.starts(with: name.utf8) else { return nil }
    let digits = String(decoding: text.dropFirst(name.utf8.count), as: UTF8.self)
    // As the form has it: no sign and no zeros in front.
    return UInt32(digits).flatMap { String($0) == digits ? $0 : nil }
  }

  /// PHC strings use the standard alphabet without padding.
  private static func bytes(_ text: Substring.UTF8View) -> [UInt8]? {
    guard !text.contains(UInt8(ascii: "-")), !text.contains(UInt8(ascii: "_")) else { return nil }
    return Base64URL.decode(
      text.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: "-") : $0 == UInt8(ascii: "/") ? UInt8(ascii: "_") : $0 })
  }

  private static func base64(_ bytes: [UInt8]) -> String {
    let url = Base64URL.encode(bytes)
    return String(url.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
  }
}
