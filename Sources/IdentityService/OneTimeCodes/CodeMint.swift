import Cryptography
import LatchkeyModel
import Storage

/// Makes one-time codes, and the keyed hashes that are kept of them: six digits would be found in a moment behind a
/// hash without a key.
package struct CodeMint: Sendable {
  private let key: RedactedSecret
  private let random: RandomSource

  package init(key: RedactedSecret, random: RandomSource) {
    self.key = key
    self.random = random
  }

  /// Digits, each code as likely as any other.
  package func make(digits: Int) -> String {
    var text = ""
    while text.utf8.count < digits {
      // 250 is the largest multiple of ten that a byte holds: what is above would favour small digits.
      for byte in random.bytes(digits) where byte < 250 && text.utf8.count < digits { text += "\(byte % 10)" }
    }
    return text
  }

  package func hashed(_ code: String, for identifier: AccountIdentifier) -> OneTimeCode {
    let name = "\(identifier.kind.rawValue) \(identifier.canonical)"
    return OneTimeCode(
      identifierHash: authenticate("identifier", name),
      codeHash: authenticate("code", "\(name) \(code)")
    )
  }

  private func authenticate(_ purpose: String, _ text: String) -> [UInt8] {
    HMACSHA256.authenticate(Array(purpose.utf8) + [0] + Array(text.utf8), key: key.exposed)
  }
}
