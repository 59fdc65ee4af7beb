import Glibc
import TestSupport
import Testing

@testable import LatchkeyClient

@Suite struct SecretStoreTests {
  let folder: TemporaryFolder
  var store: FileSecretStore { FileSecretStore(directory: "\(folder.path)/a/b") }

  init() throws { folder = try TemporaryFolder() }

  @Test("D6: a secret is a file that only its owner can read")
  func mode() throws {
    try store.save([1, 2, 3], as: "session")
    #expect(try store.secret(named: "session") == [1, 2, 3])
    #expect(FileLook.mode(of: "\(store.directory)/session") == 0o600)
    #expect(FileLook.mode(of: store.directory) == 0o700)
  }

  @Test("D6: a file that others may read is refused")
  func tooOpen() throws {
    try store.save([1], as: "session")
    // The path lives as a NUL-terminated copy for the length of the call.
    #expect(unsafe chmod("\(store.directory)/session", 0o644) == 0)
    #expect(throws: SecretStoreError.self) { try store.secret(named: "session") }
  }

  @Test("D5: not there and cannot tell are different answers")
  func absent() throws {
    #expect(try store.secret(named: "session") == nil)
    try store.save([1], as: "device")
    #expect(try store.secret(named: "session") == nil)
    // A directory in the file's place cannot be read as one.
    #expect(unsafe mkdir("\(store.directory)/session", 0o700) == 0)
    #expect(throws: SecretStoreError.self) { try store.secret(named: "session") }
  }

  @Test("a name that is taken stays as it is")
  func addOnce() throws {
    #expect(try store.add([1], as: "device"))
    #expect(try !store.add([2], as: "device"))
    #expect(try store.secret(named: "device") == [1])
    try store.removeSecret(named: "device")
    try store.removeSecret(named: "device")
    #expect(try store.add([3], as: "device"))
  }

  @Test("a name cannot leave the directory", arguments: ["", "..", "a/b", "A", "a.b", "é"])
  func names(name: String) {
    #expect(throws: SecretStoreError.self) { try store.save([1], as: name) }
    #expect(throws: SecretStoreError.self) { try store.secret(named: name) }
  }
}
