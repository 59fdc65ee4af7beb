import Cryptography
import Glibc
import JSON
import LatchkeyModel
import Storage

/// The signing keys of rows that were moved to a data directory: lines as an export of these rows has them, each sealed as
/// it was there. The first start over that directory opens them.
struct SealedKeyFile {
  let path: String
  /// As a ``SealedKeyStore`` has it.
  let secret: RedactedSecret

  /// Adds the keys to a directory and removes the file, if there is one. May be ended anywhere, and is done again then.
  ///
  /// Errors: `sealed` for a key that another secret sealed; nothing is added then.
  func move(to directory: SigningKeyDirectory) throws(SigningKeyError) {
    let bytes: [UInt8]
    do throws(SecretFileError) {
      bytes = try SecretFile.read(path)
    } catch {
      if case .system(_, _, ENOENT) = error { return }
      throw .file(error)
    }
    var keys: [SigningKey] = []
    for line in bytes.split(separator: UInt8(ascii: "\n")) {
      keys.append(try SealedKeyStore.open(try row(Array(line)), with: secret))
    }
    for key in keys {
      do throws(SigningKeyError) {
        try directory.add(key)
      } catch {
        guard case .file(.system(_, _, EEXIST)) = error else { throw error }
      }
    }
    do throws(SecretFileError) {
      try SecretFile.remove(path)
    } catch {
      throw .file(error)
    }
  }

  private func row(_ line: [UInt8]) throws(SigningKeyError) -> SealedSigningKey {
    guard let json = try? JSONValue(parsing: line), let id = json["kid"]?.string,
      let notBefore = json["not_before"]?.integer, let sealed = json["sealed"]?.string.flatMap({ Base64URL.decode($0) })
    else { throw .key(path: path) }
    return SealedSigningKey(id: id, notBefore: Timestamp(millisecondsSinceEpoch: notBefore), sealed: sealed)
  }
}
