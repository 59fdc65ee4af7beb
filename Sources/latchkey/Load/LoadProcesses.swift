import Glibc
import LoadTest

/// The further processes of a load test: this executable again, each leaving its recorder in a file.
struct LoadProcesses {
  private var children: [(id: pid_t, path: String)] = []
  private let folder: String

  /// Starts `count` processes with `arguments` and the path of the file to leave.
  init(count: Int, arguments: [String]) throws(CommandFailure) {
    folder = "/tmp/latchkey-load-\(getpid())"
    guard count > 0 else { return }
    // The path lives as a NUL-terminated copy for the length of the call.
    guard unsafe mkdir(folder, 0o700) == 0 else {
      throw CommandFailure(.file, "cannot make \(folder): \(InputFile.text(errno))")
    }
    for number in 0..<count {
      let path = "\(folder)/\(number)"
      // strdup's copies live until they are freed below, after posix_spawn has copied them; the list ends in nil.
      var words: [UnsafeMutablePointer<CChar>?] = unsafe (["latchkey"] + arguments + ["--part", path]).map {
        unsafe strdup($0)
      }
      unsafe words.append(nil)
      defer { for unsafe word in unsafe words { unsafe free(word) } }
      var id = pid_t()
      let status = unsafe posix_spawn(&id, "/proc/self/exe", nil, nil, words, environ)
      guard status == 0 else { throw CommandFailure(.file, "cannot start a process: \(InputFile.text(status))") }
      children.append((id, path))
    }
  }

  /// Waits for all of them, and reads what they recorded.
  func finish() throws(CommandFailure) -> [LoadRecorder] {
    var parts: [LoadRecorder] = []
    var failures: [String] = []
    for child in children {
      var status: Int32 = 0
      // waitpid writes the status and keeps nothing.
      while unsafe waitpid(child.id, &status, 0) < 0, errno == EINTR {}
      if let part = try? Self.read(child.path) { parts.append(part) } else { failures.append("\(child.id)") }
      // Paths live as NUL-terminated copies for the length of the call.
      _ = unsafe unlink(child.path)
    }
    if !children.isEmpty { _ = unsafe rmdir(folder) }
    guard failures.isEmpty else {
      throw CommandFailure(.unavailable, "processes \(failures.joined(separator: ", ")) ended without their results")
    }
    return parts
  }

  private static func read(_ path: String) throws(CommandFailure) -> LoadRecorder {
    var file = try InputFile(path)
    var text = ""
    while let line = try file.line() { text += String(decoding: line, as: UTF8.self) + "\n" }
    guard let recorder = LoadRecorder(lines: text) else { throw CommandFailure(.file, "\(path) is incomplete") }
    return recorder
  }
}
