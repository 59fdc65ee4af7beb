import Glibc

/// Files of mode 0600 that hold keys and tokens: written whole or not at all, and there after a power cut.
///
/// The unsafe calls without a word of their own pass a path as a NUL-terminated copy, which lives as long as the call.
package enum SecretFile {
  /// The file's bytes, after checking that only its owner may touch it.
  ///
  /// Errors: ``SecretFileError``; `code` is `ENOENT` when there is no such file.
  package static func read(
    _ path: String,
    limit: Int = Limits.keyFileBytes
  ) throws(SecretFileError) -> [UInt8] {
    // O_NONBLOCK: opening a pipe by mistake must not hang the start.
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else { throw failed("open", path) }
    defer { close(file) }
    var status = stat()
    // fstat fills the one struct it is given.
    guard unsafe fstat(file, &status) == 0 else { throw failed("inspect", path) }
    guard status.st_mode & S_IFMT == S_IFREG else { throw .notAFile(path: path) }
    guard status.st_mode & 0o077 == 0 else { throw .tooOpen(path: path) }
    return try readAll(file, path, limit)
  }

  /// Creates the file. Errors: `code` is `EEXIST` when there is one already, which is left as it is.
  package static func create(_ path: String, _ bytes: [UInt8]) throws(SecretFileError) {
    let temporary = try writeTemporary(path, bytes)
    defer { unsafe unlink(temporary) }
    // link fails when the name is taken, so of several starting processes one wins, and nobody reads half a file.
    guard unsafe link(temporary, path) == 0 else { throw failed("create", path) }
    try synchronizeDirectory(of: path)
  }

  /// Puts `bytes` in the place of whatever the file held.
  package static func replace(_ path: String, _ bytes: [UInt8]) throws(SecretFileError) {
    let temporary = try writeTemporary(path, bytes)
    guard unsafe rename(temporary, path) == 0 else {
      let error = failed("replace", path)
      unsafe unlink(temporary)
      throw error
    }
    try synchronizeDirectory(of: path)
  }

  /// Forgets what the file held. Errors: `code` is `ENOENT` when there is no such file.
  package static func remove(_ path: String) throws(SecretFileError) {
    guard unsafe unlink(path) == 0 else { throw failed("remove", path) }
    try synchronizeDirectory(of: path)
  }

  /// The file's bytes; where there is no file yet, those of `make`, written first. Safe against others who do the same.
  package static func readOrCreate(
    _ path: String,
    _ make: () throws(SecretFileError) -> [UInt8]
  ) throws(SecretFileError) -> [UInt8] {
    do throws(SecretFileError) {
      return try read(path)
    } catch {
      guard case .system(_, _, ENOENT) = error else { throw error }
    }
    let bytes = try make()
    do throws(SecretFileError) {
      try create(path, bytes)
      return bytes
    } catch {
      guard case .system(_, _, EEXIST) = error else { throw error }
      return try read(path)
    }
  }

  /// A new file beside `path` with the bytes on disk. Returns its path.
  private static func writeTemporary(_ path: String, _ bytes: [UInt8]) throws(SecretFileError) -> String {
    let suffix = SecureRandom.bytes(8).map { String($0, radix: 16) }.joined()
    let temporary = "\(path).\(suffix).tmp"
    let file = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else { throw failed("create", temporary) }
    do throws(SecretFileError) {
      try writeAll(file, temporary, bytes)
      // A umask can only take bits away: the owner's must be there.
      guard fchmod(file, 0o600) == 0, fsync(file) == 0 else { throw failed("write", temporary) }
    } catch {
      close(file)
      unsafe unlink(temporary)
      throw error
    }
    close(file)
    return temporary
  }

  private static func writeAll(_ file: Int32, _ path: String, _ bytes: [UInt8]) throws(SecretFileError) {
    var written = 0
    while written < bytes.count {
      // write reads from the array within its count.
      let count = unsafe bytes.withUnsafeBytes { bytes in
        unsafe write(file, bytes.baseAddress?.advanced(by: written), bytes.count - written)
      }
      if count < 0 {
        if errno == EINTR { continue }
        throw failed("write", path)
      }
      written += count
    }
  }

  private static func readAll(_ file: Int32, _ path: String, _ limit: Int) throws(SecretFileError) -> [UInt8] {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
      // read writes at most `count` bytes into the array. A bare `read` would be this type's own.
      let count = unsafe chunk.withUnsafeMutableBytes { chunk in
        unsafe Glibc.read(file, chunk.baseAddress, chunk.count)
      }
      if count < 0 {
        if errno == EINTR { continue }
        throw failed("read", path)
      }
      if count == 0 { return bytes }
      bytes += chunk[..<count]
      guard bytes.count <= limit else { throw .tooLong(path: path) }
    }
  }

  /// A new name is durable once its directory is.
  private static func synchronizeDirectory(of path: String) throws(SecretFileError) {
    let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
    let directory = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let handle = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard handle >= 0 else { throw failed("open", directory) }
    defer { close(handle) }
    guard fsync(handle) == 0 else { throw failed("synchronise", directory) }
  }

  private static func failed(_ operation: String, _ path: String) -> SecretFileError {
    .system(operation: operation, path: path, code: errno)
  }
}
