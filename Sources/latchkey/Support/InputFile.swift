import Cryptography
import Glibc

/// Reads files and standard input, whole or line by line.
struct InputFile: ~Copyable {
  private let file: Int32
  private let path: String
  private var buffer: [UInt8] = []
  private var start = 0
  private var isAtEnd = false

  /// No line of ours is longer; a longer one is not ours.
  static let maximumLine = 1024 * 1024

  /// `-` is standard input.
  init(_ path: String) throws(CommandFailure) {
    self.path = path == "-" ? "standard input" : path
    // The path lives as a NUL-terminated copy for the length of the call.
    file = path == "-" ? dup(STDIN_FILENO) : unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw CommandFailure(.file, "cannot open \(path): \(SystemError.text(errno))") }
  }

  /// How long a file is; nil for pipes, devices and what is not there.
  static func size(_ path: String) -> Int64? {
    var status = stat()
    // stat fills the struct; the path lives as a NUL-terminated copy for the length of the call.
    guard path != "-", unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    return Int64(status.st_size)
  }

  deinit {
    close(file)
  }

  /// The next line without its end, nil after the last.
  mutating func line() throws(CommandFailure) -> [UInt8]? {
    while true {
      if let end = buffer[start...].firstIndex(of: UInt8(ascii: "\n")) {
        defer { start = end + 1 }
        return Array(buffer[start..<end])
      }
      guard !isAtEnd else {
        guard start < buffer.count else { return nil }
        defer { start = buffer.count }
        return Array(buffer[start...])
      }
      guard buffer.count - start <= Self.maximumLine else {
        throw CommandFailure(.invalid, "\(path): a line is longer than \(Self.maximumLine) bytes")
      }
      try fill()
    }
  }

  /// All of it, up to the length of a line.
  mutating func contents() throws(CommandFailure) -> [UInt8] {
    while !isAtEnd {
      guard buffer.count <= Self.maximumLine else {
        throw CommandFailure(.invalid, "\(path): longer than \(Self.maximumLine) bytes")
      }
      try fill()
    }
    return Array(buffer[start...])
  }

  /// The next bytes, as they come; nil after the last.
  mutating func chunk() throws(CommandFailure) -> [UInt8]? {
    while start == buffer.count, !isAtEnd { try fill() }
    guard start < buffer.count else { return nil }
    defer { start = buffer.count }
    return Array(buffer[start...])
  }

  private mutating func fill() throws(CommandFailure) {
    buffer.removeSubrange(..<start)
    start = 0
    var chunk = [UInt8](repeating: 0, count: 64 * 1024)
    let count = unsafe chunk.withUnsafeMutableBytes { chunk in
      // read writes at most `count` bytes into the array.
      unsafe read(file, chunk.baseAddress, chunk.count)
    }
    guard count >= 0 else {
      if errno == EINTR { return }
      throw CommandFailure(.file, "cannot read \(path): \(SystemError.text(errno))")
    }
    if count == 0 { isAtEnd = true }
    buffer += chunk[..<count]
  }
}
