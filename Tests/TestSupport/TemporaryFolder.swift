import Glibc

/// A folder of the test's own, removed with everything in it when the test is done.
package final class TemporaryFolder: Sendable {
  package let path: String

  package init() throws {
    path = try Self.make("latchkey-test")
  }

  deinit {
    Self.removeTree(path)
  }

  /// The path of a new folder, in TMPDIR or else /tmp, that whoever made it removes.
  package static func make(_ name: String) throws -> String {
    // The text is copied; nothing of these tests changes the environment.
    let parent = unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
    var template = Array("\(parent)/\(name)-XXXXXX".utf8CString)
    // mkdtemp fills in the six letters in place and keeps nothing.
    guard unsafe mkdtemp(&template) != nil else { throw CannotMake(code: errno) }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  package func file(_ name: String) -> String { "\(path)/\(name)" }

  private static func removeTree(_ path: String) {
    for name in names(in: path) {
      let entry = "\(path)/\(name)"
      // The paths live through the calls; what is no file is a folder.
      if unsafe unlink(entry) != 0 { removeTree(entry) }
    }
    unsafe rmdir(path)
  }

  private static func names(in path: String) -> [String] {
    guard let folder = unsafe opendir(path) else { return [] }
    // The stream is used by this call alone and closed at its end.
    defer { unsafe closedir(folder) }
    var names: [String] = []
    // Each entry holds until the next readdir; its NUL-terminated name is copied here.
    while let entry = unsafe readdir(folder) {
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }

  package struct CannotMake: Error {
    package let code: Int32
  }
}
