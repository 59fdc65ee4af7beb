import Glibc

/// What a test sees of a file.
package enum FileLook {
  /// The whole file; empty when there is none.
  package static func contents(of path: String) -> [UInt8] {
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
  package static func mode(of path: String) -> mode_t {
    var status = stat()
    // stat fills the one struct it is given.
    guard unsafe stat(path, &status) == 0 else { return 0 }
    return status.st_mode & 0o777
  }
}
