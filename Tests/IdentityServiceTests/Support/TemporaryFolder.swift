import Glibc

/// A folder that goes away with this object.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/latchkey-identity-XXXXXX".utf8CString)
    // mkdtemp writes within the array's NUL-terminated length and returns that same pointer.
    let made = unsafe template.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    guard made else { throw CannotMake(code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    Self.removeTree(path)
  }

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

  struct CannotMake: Error {
    let code: Int32
  }
}

/// The whole file; empty when there is none.
func contents(of path: String) -> [UInt8] {
  // The path is copied for the call.
  let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
  guard file >= 0 else { return [] }
  defer { close(file) }
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 1 << 16)
  while true {
    // read fills at most the chunk's own length.
    let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(file, $0.baseAddress, $0.count) }
    if count <= 0 { return bytes }
    bytes += chunk[..<count]
  }
}

/// The permission bits of a file or folder.
func mode(of path: String) -> mode_t {
  var status = stat()
  // stat fills the one struct it is given.
  guard unsafe stat(path, &status) == 0 else { return 0 }
  return status.st_mode & 0o777
}
