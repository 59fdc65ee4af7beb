internal import Glibc

/// The process's standard output and standard error. Nobody waits for whoever reads them.
package enum StandardStream {
  /// Writes one line of the log.
  ///
  /// - Parameters:
  ///   - isMinor: whether other lines have room that this one has not, while nobody reads.
  ///   - loss: makes a line that says how many before this one are lost.
  @Sendable package static func log(_ line: [UInt8], isMinor: Bool, loss: (_ lines: Int) -> [UInt8]) {
    LogStream.standardError.write(line, isMinor: isMinor, loss: loss)
  }

  /// Tells whoever started the process of an error.
  static func complain(_ line: String) {
    LogStream.standardError.write(Array("\(line)\n".utf8)) { _ in [] }
  }

  /// Shows a line to whoever started the process.
  package static func show(_ line: String) {
    LogStream.standardOutput.write(Array("\(line)\n".utf8)) { _ in [] }
  }

  /// Waits for the readers of both, for a moment: the process ends.
  static func finish() {
    for stream in [LogStream.standardOutput, .standardError] { stream.finish(within: Limits.lastLogLines) }
  }

  /// Sees to it that the numbers of the standard streams are not given to other files, where the process was started without
  /// them.
  static func open() {
    // open reads the path and keeps nothing. The lowest number that is free is what it returns.
    var file = unsafe Glibc.open("/dev/null", O_RDWR)
    while (0...STDERR_FILENO).contains(file) { file = unsafe Glibc.open("/dev/null", O_RDWR) }
    if file >= 0 { close(file) }
  }
}
