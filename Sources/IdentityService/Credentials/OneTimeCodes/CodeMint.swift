import Cryptography
import Domain
import LatchkeyModel
import Storage

/// Makes one-time codes, and the keyed hashes that are kept of them: six digits would be found in a moment behind a
/// hash without a key.
package struct CodeMint: Sendable {
  private let key: RedactedSecret
  /// What a handle begins with, before its cell.
  static let handlePrefix = "lko_"

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

  /// A name for a code, which tells it from the others of its identifier.
  package func makeHandle() -> String {
    "\(Self.handlePrefix)\(random.cell.prefix)\(Base64URL.encode(random.bytes(16)))"
  }

  package func hashed(
    _ code: String, for identifier: AccountIdentifier, _ purpose: CodePurpose, handle: String
  ) -> OneTimeCode {
    OneTimeCode(
      identifierHash: identifierHash(identifier, purpose), codeHash: codeHash(code, for: identifier, purpose),
      handleHash: Self.handleHash(handle))
  }

  /// - Parameter handle: empty from who says none.
  package func presented(
    _ code: String, for identifier: AccountIdentifier, _ purpose: CodePurpose, handle: String, account: SubjectID?,
    by requester: Requester, at now: Timestamp
  ) -> PresentCode {
    PresentCode(
      identifierHash: identifierHash(identifier, purpose), codeHash: codeHash(code, for: identifier, purpose),
      handleHash: handle.isEmpty ? nil : Self.handleHash(handle), account: account, requester: requester, at: now)
  }

  /// Asks whether there is such a code. Nil for what is no handle of ours.
  package func find(
    handle: String, of identifier: AccountIdentifier, _ purpose: CodePurpose, at now: Timestamp
  ) -> FindCode? {
    guard handle.hasPrefix(Self.handlePrefix) else { return nil }
    return FindCode(
      identifierHash: identifierHash(identifier, purpose), handleHash: Self.handleHash(handle), at: now)
  }

  package func identifierHash(_ identifier: AccountIdentifier, _ purpose: CodePurpose = .signIn) -> [UInt8] {
    authenticate("identifier", Self.name(identifier, purpose))
  }

  private func codeHash(_ code: String, for identifier: AccountIdentifier, _ purpose: CodePurpose) -> [UInt8] {
    authenticate("code", "\(Self.name(identifier, purpose)) \(code)")
  }

  private static func handleHash(_ handle: String) -> [UInt8] { SHA256Hash.hash(Array(handle.utf8)) }

  /// A code for one purpose is none for another.
  private static func name(_ identifier: AccountIdentifier, _ purpose: CodePurpose) -> String {
    "\(purpose.rawValue) \(identifier.kind.rawValue) \(identifier.canonical)"
  }

  private func authenticate(_ purpose: String, _ text: String) -> [UInt8] {
    HMACSHA256.authenticate(Array(purpose.utf8) + [0] + Array(text.utf8), key: key.exposed)
  }
}
