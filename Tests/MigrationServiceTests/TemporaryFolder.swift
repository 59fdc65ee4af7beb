import Glibc

/// A folder of the test's own, removed with everything in it when the test is done.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/latchkey-test-XXXXXX".utf8CString)
    // `mkdtemp` fills in the six letters in place and keeps nothing.
    guard unsafe mkdtemp(&template) != nil else { throw FolderError(code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    // The paths live through the calls.
    for name in ["test.db", "test.db-wal", "test.db-shm", "test.db-journal"] {
      unsafe unlink(file(name))
    }
    unsafe rmdir(path)
  }

  func file(_ name: String) -> String { "\(path)/\(name)" }

  struct FolderError: Error {
    let code: Int32
  }
}
