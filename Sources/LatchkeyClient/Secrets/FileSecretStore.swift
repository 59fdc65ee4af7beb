import Cryptography
import Glibc

/// Secrets as files that only their owner can read: one directory (0700), one file (0600) for each. A file appears
/// whole or not at all.
public struct FileSecretStore: SecretStore {
  public let directory: String

  public init(directory: String) {
    self.directory = directory
  }

  public func secret(named name: String) throws(SecretStoreError) -> [UInt8]? {
    let path = try path(of: name, .read)
    do throws(SecretFileError) {
      return try SecretFile.read(path, limit: Limits.secretBytes)
    } catch {
      // Only this one code says that there certainly is no such file.
      if case .system(_, _, ENOENT) = error { return nil }
      throw SecretStoreError(.read, name, reason: error.description)
    }
  }

  public func add(_ secret: [UInt8], as name: String) throws(SecretStoreError) -> Bool {
    let path = try path(of: name, .add)
    try checkLength(of: secret, .add, name)
    try makeDirectory(.add, name)
    do throws(SecretFileError) {
      try SecretFile.create(path, secret)
      return true
    } catch {
      if case .system(_, _, EEXIST) = error { return false }
      throw SecretStoreError(.add, name, reason: error.description)
    }
  }

  public func save(_ secret: [UInt8], as name: String) throws(SecretStoreError) {
    let path = try path(of: name, .save)
    try checkLength(of: secret, .save, name)
    try makeDirectory(.save, name)
    do throws(SecretFileError) {
      try SecretFile.replace(path, secret)
    } catch {
      throw SecretStoreError(.save, name, reason: error.description)
    }
  }

  public func update(
    _ name: String, _ change: ([UInt8]?) throws(SecretStoreError) -> [UInt8]
  ) throws(SecretStoreError) {
    try makeDirectory(.save, name)
    let lock: DirectoryLock
    do throws(SecretFileError) {
      lock = try DirectoryLock(directory)
    } catch {
      throw SecretStoreError(.save, name, reason: error.description)
    }
    try save(try change(try secret(named: name)), as: name)
    lock.release()
  }

  public func removeSecret(named name: String) throws(SecretStoreError) {
    let path = try path(of: name, .remove)
    do throws(SecretFileError) {
      try SecretFile.remove(path)
    } catch {
      if case .system("remove", _, ENOENT) = error { return }
      throw SecretStoreError(.remove, name, reason: error.description)
    }
  }

  /// What could be kept but not read again is refused before it takes the place of what is there.
  private func checkLength(
    of secret: [UInt8], _ operation: SecretStoreError.Operation, _ name: String
  ) throws(SecretStoreError) {
    guard secret.count <= Limits.secretBytes else {
      throw SecretStoreError(operation, name, reason: "it has more than \(Limits.secretBytes) bytes")
    }
  }

  /// Names are ours, but one with a slash would leave the directory, so it is refused all the same.
  private func path(of name: String, _ operation: SecretStoreError.Operation) throws(SecretStoreError) -> String {
    let isPlain = name.utf8.allSatisfy { byte in
      (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || byte == UInt8(ascii: "-")
    }
    guard isPlain, (1...64).contains(name.utf8.count) else {
      throw SecretStoreError(operation, name, reason: "a name is 1 to 64 lower-case letters and hyphens")
    }
    return "\(directory)/\(name)"
  }

  private func makeDirectory(_ operation: SecretStoreError.Operation, _ name: String) throws(SecretStoreError) {
    do throws(SecretFileError) {
      try SecretFile.makeDirectory(directory)
    } catch {
      throw SecretStoreError(operation, name, reason: error.description)
    }
  }
}

extension SecretFile {
  /// Makes a directory for its owner alone (0700), with those above it that are missing.
  static func makeDirectory(_ path: String) throws(SecretFileError) {
    var made = path.hasPrefix("/") ? "/" : ""
    for part in path.split(separator: "/") {
      made += made.isEmpty || made.hasSuffix("/") ? String(part) : "/\(part)"
      // The path lives as a NUL-terminated copy for the length of the call.
      guard unsafe mkdir(made, 0o700) != 0 else { continue }
      let code = errno
      guard code == EEXIST else { throw .system(operation: "create", path: made, code: code) }
    }
  }
}
