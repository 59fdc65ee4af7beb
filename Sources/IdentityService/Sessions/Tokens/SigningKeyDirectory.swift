import Cryptography
import Glibc
import LatchkeyModel

/// The signing keys as files of mode 0600 in a directory of mode 0700, one for each key, made once and never changed.
///
/// A file is a PEM private key behind one line that says from when it signs. Several processes may make keys at the
/// same time: each sees the other's, and the schedule puts them in order.
package struct SigningKeyDirectory: Sendable {
  package let path: String
  private static let suffix = ".pem"
  private static let heading = "not-before-ms: "

  package init(path: String) {
    self.path = path
  }

  /// Reads every key, making the directory first if there is none.
  package func load() throws(SigningKeyError) -> [SigningKey] {
    try makeDirectory()
    var keys: [SigningKey] = []
    for name in try names() where name.hasSuffix(Self.suffix) {
      guard let key = try read("\(path)/\(name)") else { continue }
      keys.append(key)
    }
    return keys
  }

  /// Makes a key that signs from `notBefore` on.
  package func create(notBefore: Timestamp) throws(SigningKeyError) -> SigningKey {
    let key = try SigningKey.make(notBefore: notBefore)
    try add(key)
    return key
  }

  package func add(_ key: SigningKey) throws(SigningKeyError) {
    try makeDirectory()
    do {
      let time = key.entry.notBefore.millisecondsSinceEpoch
      try SecretFile.create(
        "\(path)/\(key.entry.id)\(Self.suffix)", Array("\(Self.heading)\(time)\n".utf8) + key.key.pem())
    } catch let error as SecretFileError {
      throw .file(error)
    } catch {
      throw .key(path: path)
    }
  }

  /// Forgets a key whose last token expired.
  package func remove(_ entry: SigningKeySchedule.Entry) {
    // The path is copied for the call.
    unsafe unlink("\(path)/\(entry.id)\(Self.suffix)")
  }

  /// Nil for a file that went away meanwhile.
  private func read(_ file: String) throws(SigningKeyError) -> SigningKey? {
    let bytes: [UInt8]
    do {
      bytes = try SecretFile.read(file)
    } catch SecretFileError.system(_, _, ENOENT) {
      return nil
    } catch {
      throw .file(error)
    }
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 1)
    guard lines.count == 2 else { throw .key(path: file) }
    let first = String(decoding: lines[0], as: UTF8.self)
    guard first.hasPrefix(Self.heading), let time = Int64(first.dropFirst(Self.heading.count)),
      let key = try? P256PrivateKey(pem: Array(lines[1]))
    else { throw .key(path: file) }
    return SigningKey(key, notBefore: Timestamp(millisecondsSinceEpoch: time))
  }

  private func makeDirectory() throws(SigningKeyError) {
    // As above.
    guard unsafe mkdir(path, 0o700) != 0, errno != EEXIST else { return }
    throw .file(.system(operation: "create", path: path, code: errno))
  }

  private func names() throws(SigningKeyError) -> [String] {
    guard let directory = unsafe opendir(path) else {
      throw .file(.system(operation: "open", path: path, code: errno))
    }
    // The stream is used by this call alone and closed at its end.
    defer { unsafe closedir(directory) }
    var names: [String] = []
    // Each entry holds until the next readdir; its name is NUL-terminated within the struct and copied here.
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { field in
        unsafe field.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: entry.pointee.d_name)) {
          unsafe String(cString: $0)
        }
      }
      names.append(name)
    }
    return names
  }
}

/// The keys of a directory, by the clock of the process that has it.
package struct SigningKeyFiles: SigningKeyStore {
  let directory: SigningKeyDirectory
  let clock: any WallClock

  package init(_ directory: SigningKeyDirectory, clock: any WallClock) {
    self.directory = directory
    self.clock = clock
  }

  package var isShared: Bool { false }

  /// Blocks on the disk.
  package func load() throws(SigningKeyError) -> SigningKeyReading {
    let start = ContinuousClock.now
    return SigningKeyReading(keys: try directory.load(), time: clock.now(), asOf: start, heard: .now)
  }

  /// Blocks on the disk. What is new is stored before anything goes.
  package func change(
    _ decide: SigningKeyDecision
  ) throws(SigningKeyError) -> (change: SigningKeyChange, reading: SigningKeyReading) {
    let change = try decide(try directory.load(), clock.now())
    for key in change.new { try directory.add(key) }
    for entry in change.gone { directory.remove(entry) }
    return (change, try load())
  }
}
