internal import Glibc

/// The process's standard output and standard error, written at once and without a buffer of ours.
package enum StandardStream {
  /// Writes one line of the log. Up to PIPE_BUF bytes arrive whole even when several threads write.
  @Sendable package static func log(_ line: [UInt8]) {
    write(line, to: STDERR_FILENO)
  }

  /// Shows a line to whoever started the process.
  package static func show(_ line: String) {
    write(Array("\(line)\n".utf8), to: STDOUT_FILENO)
  }

  private static func write(_ line: [UInt8], to file: Int32) {
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
