internal import Cryptography
internal import Glibc

/// Small files that an operator names.
package enum FileContents {
  package static func exists(_ path: String) -> Bool {
    // The path is copied for the call.
    unsafe access(path, F_OK) == 0
  }

  /// The whole file. Errors: ``ConfigurationError/file(path:reason:)``, also for one that is too long.
  package static func read(_ path: String) throws(ConfigurationError) -> [UInt8] {
    // The path is copied for the call. O_NONBLOCK: opening a pipe by mistake must not hang the start.
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else { throw .file(path: path, reason: SystemError.text(errno)) }
    defer { close(file) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while bytes.count <= Limits.configurationBytes {
      // read writes at most `count` bytes into the array.
      let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(file, $0.baseAddress, $0.count) }
      if count == 0 { return bytes }
      guard count > 0 else { throw .file(path: path, reason: SystemError.text(errno)) }
      bytes += chunk[..<count]
    }
    throw .file(path: path, reason: "is too long")
  }
}
