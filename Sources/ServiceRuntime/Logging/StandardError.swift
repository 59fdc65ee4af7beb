internal import Glibc

/// The process's standard error.
package enum StandardError {
  /// Writes one line. A line up to PIPE_BUF bytes arrives whole even when several threads write.
  @Sendable package static func write(_ line: [UInt8]) {
    write(line, to: STDERR_FILENO)
  }

  static func write(_ line: [UInt8], to file: Int32) {
    var written = 0
    while written < line.count {
      // write reads from the array within its count.
      let count = unsafe line.withUnsafeBytes { line in
        unsafe Glibc.write(file, line.baseAddress?.advanced(by: written), line.count - written)
      }
      // Nobody to tell: the log itself is what failed.
      guard count > 0 || errno == EINTR else { return }
      if count > 0 { written += count }
    }
  }
}
