import Cryptography
import Glibc
import LoadTest

/// The further processes of a load test: this executable again, each at the other end of two pipes.
///
///     child: "ready"                 parent, when all are: "go"
///     child: "count 120 3", …        parent, to end early: "stop"
///     child: its recorder's lines
///
/// A child whose standard input ends has lost its parent, and ends too: none is left behind, however the parent goes.
final class LoadProcesses {
  private struct Child {
    let id: pid_t
    let input: Int32
    let output: Int32
    var text: [UInt8] = []
    var isReady = false
    var isOver = false
    var counts = LoadCounts()
    var results = ""
  }

  private var children: [Child] = []

  /// Starts `count` processes with `arguments`.
  init(count: Int, arguments: [String]) throws(CommandFailure) {
    for _ in 0..<count {
      do throws(CommandFailure) {
        children.append(try Self.start(["latchkey"] + arguments + ["--part"]))
      } catch {
        end()
        throw error
      }
    }
  }

  private static func start(_ words: [String]) throws(CommandFailure) -> Child {
    func failure(_ code: Int32) -> CommandFailure {
      CommandFailure(.unavailable, "cannot start a process: \(SystemError.text(code))")
    }
    var down: [Int32] = [-1, -1]
    var up: [Int32] = [-1, -1]
    // pipe writes two numbers into each array.
    guard unsafe pipe(&down) == 0 else { throw failure(errno) }
    guard unsafe pipe(&up) == 0 else {
      let code = errno
      for file in down { close(file) }
      throw failure(code)
    }
    // No other process inherits these ends: a child gets its own below.
    for file in down + up { _ = fcntl(file, F_SETFD, FD_CLOEXEC) }
    defer {
      close(down[0])
      close(up[1])
    }
    var actions = unsafe posix_spawn_file_actions_t()
    // The actions are initialised, used by one spawn and destroyed here.
    _ = unsafe posix_spawn_file_actions_init(&actions)
    defer { _ = unsafe posix_spawn_file_actions_destroy(&actions) }
    _ = unsafe posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO)
    _ = unsafe posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO)
    // strdup's copies live until they are freed below, after posix_spawn has copied them; the list ends in nil.
    var arguments: [UnsafeMutablePointer<CChar>?] = unsafe words.map { unsafe strdup($0) }
    unsafe arguments.append(nil)
    defer { for unsafe argument in unsafe arguments { unsafe free(argument) } }
    var id = pid_t()
    let status = unsafe posix_spawn(&id, "/proc/self/exe", &actions, nil, arguments, environ)
    guard status == 0 else {
      close(down[1])
      close(up[0])
      throw failure(status)
    }
    _ = fcntl(up[0], F_SETFL, O_NONBLOCK)
    return Child(id: id, input: down[1], output: up[0])
  }

  var counts: LoadCounts { children.reduce(LoadCounts()) { $0 + $1.counts } }

  /// Whether none has ended.
  var areAlive: Bool { children.allSatisfy { !$0.isOver } }

  /// Whether all have prepared their part.
  var areReady: Bool { children.allSatisfy(\.isReady) }

  /// Lets them begin.
  func go() { say("go\n") }

  /// Ends their runs early; their results come all the same.
  func stop() { say("stop\n") }

  /// Reads what they have said so far.
  func listen() {
    for index in children.indices where !children[index].isOver { listen(to: index) }
  }

  /// Waits for all of them, and gives what they recorded.
  func finish() async throws(CommandFailure) -> [LoadRecorder] {
    var parts: [LoadRecorder] = []
    for index in children.indices {
      while !children[index].isOver {
        listen()
        try? await Task.sleep(for: .milliseconds(5))
      }
      guard let part = LoadRecorder(lines: children[index].results) else { throw gone(index) }
      parts.append(part)
    }
    end()
    return parts
  }

  /// Lets go of all of them: those that still run end by themselves.
  func end() {
    for child in children {
      close(child.input)
      close(child.output)
      var status: Int32 = 0
      // waitpid writes the status and keeps nothing.
      while unsafe waitpid(child.id, &status, 0) < 0, errno == EINTR {}
    }
    children = []
  }

  private func gone(_ index: Int) -> CommandFailure {
    CommandFailure(
      .unavailable, "process \(index + 2) of \(children.count + 1) ended without its results: see what it says above")
  }

  private func say(_ text: String) {
    for child in children where !child.isOver {
      // write reads the bytes and keeps nothing. One that has gone is noticed when it is listened to.
      _ = unsafe Array(text.utf8).withUnsafeBytes { unsafe write(child.input, $0.baseAddress, $0.count) }
    }
  }

  private func listen(to index: Int) {
    var chunk = [UInt8](repeating: 0, count: 64 * 1024)
    while true {
      let count = unsafe chunk.withUnsafeMutableBytes { chunk in
        // read writes at most `count` bytes into the array.
        unsafe read(children[index].output, chunk.baseAddress, chunk.count)
      }
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN { break }
      guard count > 0 else {
        children[index].isOver = true
        break
      }
      children[index].text += chunk[..<count]
    }
    let lines = children[index].text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    guard let rest = lines.last, lines.count > 1 else { return }
    for line in lines.dropLast() { take(String(decoding: line, as: UTF8.self), from: index) }
    children[index].text = Array(rest)
  }

  private func take(_ line: String, from index: Int) {
    let words = line.split(separator: " ")
    if line == "ready" {
      children[index].isReady = true
    } else if words.count == 3, words[0] == "count", let done = Int(words[1]), let failed = Int(words[2]) {
      children[index].counts = LoadCounts(done: done, failed: failed)
    } else {
      children[index].results += line + "\n"
    }
  }
}

/// A further process's end of the pipes.
enum LoadPart {
  static func say(_ text: String) {
    let bytes = Array(text.utf8)
    var written = 0
    while written < bytes.count {
      let count = unsafe bytes.withUnsafeBytes { buffer in
        // The source range lies within the array: `written` is below its count.
        unsafe write(STDOUT_FILENO, buffer.baseAddress?.advanced(by: written), buffer.count - written)
      }
      if count < 0, errno != EINTR { leave() }
      written += max(0, count)
    }
  }

  /// What the parent says next; nil when it has said nothing yet. Ends the process when the parent is gone.
  static func heard() -> String? {
    var ready = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
    // poll reads and writes the one entry.
    guard unsafe poll(&ready, 1, 0) > 0 else { return nil }
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = unsafe bytes.withUnsafeMutableBytes { bytes in
      // read writes at most `count` bytes into the array.
      unsafe read(STDIN_FILENO, bytes.baseAddress, bytes.count)
    }
    guard count > 0 else { leave() }
    return String(decoding: bytes[..<count], as: UTF8.self)
  }

  /// Nobody is left to report to.
  private static func leave() -> Never { _exit(2) }
}
