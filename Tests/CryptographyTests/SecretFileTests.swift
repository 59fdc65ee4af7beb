import Glibc
import Testing

@testable import Cryptography

@Suite("Secret files")
final class SecretFileTests {
  let folder: String

  init() {
    folder = "/tmp/latchkey-secret-\(SecureRandom.bytes(8).map { String($0, radix: 16) }.joined())"
    // The path is copied for the call.
    _ = unsafe mkdir(folder, 0o700)
  }

  deinit {
    for name in ["key", "other"] { _ = unsafe unlink("\(folder)/\(name)") }
    _ = unsafe rmdir(folder)
  }

  private func mode(_ path: String) -> mode_t {
    var status = stat()
    // stat fills the one struct it is given.
    return unsafe stat(path, &status) == 0 ? status.st_mode & 0o777 : 0
  }

  @Test("a created file has mode 0600 and its bytes; a second creation fails and changes nothing")
  func create() throws {
    let path = "\(folder)/key"
    try SecretFile.create(path, [1, 2, 3])
    #expect(mode(path) == 0o600)
    #expect(try SecretFile.read(path) == [1, 2, 3])
    #expect(throws: SecretFileError.system(operation: "create", path: path, code: EEXIST)) {
      try SecretFile.create(path, [4])
    }
    #expect(try SecretFile.read(path) == [1, 2, 3])
    try SecretFile.replace(path, [5])
    #expect(try SecretFile.read(path) == [5])
    #expect(mode(path) == 0o600)
    // Nothing temporary is left: the folder holds this one file.
    #expect(unsafe unlink(path) == 0)
    #expect(unsafe rmdir(folder) == 0)
  }

  @Test("of many who create the file at once, one wins and all read the same")
  func race() async throws {
    let path = "\(folder)/key"
    let seen = try await withThrowingTaskGroup(of: [UInt8].self) { group in
      for _ in 0..<32 {
        group.addTask { try SecretFile.readOrCreate(path) { SecureRandom.bytes(32) } }
      }
      return try await group.reduce(into: Set<[UInt8]>()) { $0.insert($1) }
    }
    #expect(seen.count == 1)
    #expect(seen.first?.count == 32)
  }

  @Test("a file that others may read, a folder and a file too long are refused in words")
  func refusals() throws {
    let path = "\(folder)/key"
    try SecretFile.create(path, [1, 2, 3])
    _ = unsafe chmod(path, 0o640)
    #expect(throws: SecretFileError.tooOpen(path: path)) { try SecretFile.read(path) }
    _ = unsafe chmod(path, 0o600)
    #expect(throws: SecretFileError.tooLong(path: path)) { try SecretFile.read(path, limit: 2) }
    #expect(throws: SecretFileError.notAFile(path: folder)) { try SecretFile.read(folder) }
    let missing = SecretFileError.system(operation: "open", path: "\(folder)/none", code: ENOENT)
    #expect(throws: missing) { try SecretFile.read("\(folder)/none") }
    #expect("\(missing)" == "cannot open \(folder)/none: No such file or directory")
  }
}
