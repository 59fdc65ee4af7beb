internal import Cryptography
package import StoragePostgreSQL

/// Who brings the tables of PostgreSQL forward.
package enum SchemaPreparation: String, Sendable, CaseIterable {
  /// The service itself, at its start, as far as its release needs it.
  case apply
  /// Somebody else: the service waits for it, and is not ready.
  case wait
}

/// Where a service's rows are.
package enum StorageLocation: Sendable {
  /// A file of this machine's, for one instance.
  case sqlite(path: String)
  case postgresql(PostgreSQLURL)

  private static let fileScheme = "sqlite:"

  /// What `storage.url` says. The text is not repeated in errors: it may hold a password, which it must not.
  static func parse(_ text: String) throws(ConfigurationError) -> StorageLocation {
    let key = CommonKeys.storageURLName
    if text.hasPrefix(fileScheme) {
      let path = String(text.dropFirst(fileScheme.count))
      guard !path.isEmpty, !path.hasPrefix("//") else {
        throw .invalidValue(key: key, reason: "must be sqlite: and the path of a file, such as sqlite:/srv/qr.db")
      }
      return .sqlite(path: path)
    }
    guard let url = try? PostgreSQLURL(text) else {
      throw .invalidValue(key: key, reason: "must be sqlite:PATH or postgresql://USER@HOST:PORT/DATABASE")
    }
    guard !url.hasPassword else {
      throw .invalidValue(key: key, reason: "must not hold a password: storage.passwordFile names the file that does")
    }
    return .postgresql(url)
  }
}

extension ServiceConfiguration {
  /// Where this service's rows are: `file` of the data directory, unless the configuration says otherwise.
  ///
  /// Errors: ``ConfigurationError/file(path:reason:)`` for a password that cannot be read, or that others may read.
  func storage(file: String) throws(ConfigurationError) -> StorageLocation {
    let location = self[CommonKeys.storageURL] ?? .sqlite(path: "\(dataDirectory)/\(file)")
    guard case .postgresql(let url) = location, let path = self[CommonKeys.storagePasswordFile] else { return location }
    let bytes: [UInt8]
    do throws(SecretFileError) {
      bytes = try SecretFile.read(path)
    } catch {
      throw .file(path: path, reason: error.description)
    }
    let line = bytes.last == 0x0A ? bytes.dropLast() : bytes[...]
    guard !line.isEmpty, let password = String(validating: line, as: UTF8.self) else {
      throw .file(path: path, reason: "holds no password")
    }
    return .postgresql(url.with(password: password))
  }

  /// Whether other instances use the same rows, so that a secret made here would be one that only this instance has.
  package var sharesStorage: Bool {
    if case .postgresql = self[CommonKeys.storageURL] { true } else { false }
  }

  /// Errors: names the secret at `path`, a file or a folder, that is missing where nobody may make it up.
  package func requireMounted(_ path: String) throws(ConfigurationError) {
    guard sharesStorage, !FileContents.exists(path) else { return }
    throw .file(
      path: path,
      reason: "is missing: with PostgreSQL all instances have the same secrets, and none is made at the start")
  }
}
