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
    for name in ["test.db", "test.db-wal", "test.db-shm", "test.db-journal", "acknowledged"] {
      unsafe unlink(file(name))
    }
    unsafe rmdir(path)
  }

  func file(_ name: String) -> String { "\(path)/\(name)" }

  struct FolderError: Error {
    let code: Int32
  }
}

/// The whole file.
func contents(of path: String) -> [UInt8] {
  // The path lives through the call.
  let file = unsafe open(path, O_RDONLY)
  guard file >= 0 else { return [] }
  defer { close(file) }
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 1 << 16)
  while true {
    // Fills at most the chunk's own length.
    let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(file, $0.baseAddress, $0.count) }
    if count <= 0 { return bytes }
    bytes.append(contentsOf: chunk[..<count])
  }
}
