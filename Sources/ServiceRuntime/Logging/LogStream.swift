internal import Glibc
internal import Storage
internal import Synchronization

/// A file of the process that lines are written to, such as standard error, and whose reader may stand still: nobody waits for
/// that.
///
/// A line is written at once. What the reader does not take waits in memory, up to ``Limits/waitingLogBytes``, until a thread can
/// write it. Lines beyond that are lost, and the next one that is written comes after one that says how many were.
///
/// Cost: a lock and one system call for a line.
final class LogStream: Sendable {
  static let standardOutput = LogStream(STDOUT_FILENO, isReplaced: true)
  static let standardError = LogStream(STDERR_FILENO, isReplaced: true)

  /// How to write without waiting for the reader.
  private enum Way {
    /// A file: it has none.
    case plain
    /// A pipe or a terminal that could be opened anew, for that.
    case openedAnew
    case socket
    /// Any other file: a thread writes to it, and waits.
    case thread
  }

  private let file: Int32
  private let way: Way
  private let state = Mutex(State())

  private struct State {
    /// What the reader has not taken yet: lines, the first of which may be begun.
    var waiting: ArraySlice<UInt8> = []
    /// Lines since the last one that was written or waits.
    var lost = 0
    /// Whether there is a thread that writes what waits.
    var hasThread = false
  }

  /// - Parameters:
  ///   - file: stays the caller's.
  ///   - isReplaced: whether nobody waits either who writes to the file by its number, such as the runtime as it ends a process
  ///     that trapped.
  ///   - opensAnew: false as if that were not allowed.
  init(_ file: Int32, isReplaced: Bool = false, opensAnew: Bool = true) {
    switch Self.kind(of: file) {
    case S_IFSOCK: (self.file, way) = (file, .socket)
    case S_IFIFO, S_IFCHR:
      let opened = opensAnew ? Self.openedAnew(file) : nil
      (self.file, way) = opened.map { ($0, .openedAnew) } ?? (file, .thread)
      if isReplaced, let opened { dup2(opened, file) }
    default: (self.file, way) = (file, .plain)
    }
  }

  deinit {
    if way == .openedAnew { close(file) }
  }

  /// Writes a line, or has it wait. Up to PIPE_BUF bytes arrive whole, also where other processes write to the same file.
  ///
  /// - Parameters:
  ///   - line: with its newline.
  ///   - isMinor: of such lines only so many wait that the room for others is half as much again.
  ///   - loss: makes a line that says how many before this one are lost. Called within the stream's lock.
  func write(_ line: [UInt8], isMinor: Bool = false, loss: (_ lines: Int) -> [UInt8]) {
    state.withLock { state in
      let room = isMinor ? Limits.waitingLogBytes / 3 * 2 : Limits.waitingLogBytes
      guard state.waiting.count + line.count <= room else {
        state.lost += 1
        return
      }
      let text = (state.lost > 0 ? loss(state.lost) + line : line)[...]
      state.lost = 0
      if state.waiting.isEmpty, way != .thread {
        state.waiting = rest(of: text)
        guard !state.waiting.isEmpty else { return }
      } else {
        state.waiting += text
      }
      if !state.hasThread { state.hasThread = WorkerThread.start { [self] in writeWaiting() } }
    }
  }

  /// Whether the reader has not taken all yet.
  var hasWaiting: Bool { state.withLock { !$0.waiting.isEmpty } }

  /// Waits until nothing waits any more, or for so long.
  func finish(within time: Duration) {
    let end = ContinuousClock.now + time
    while hasWaiting, ContinuousClock.now < end { usleep(1000) }
  }

  /// Runs on a thread of its own, until nothing waits. What waits is written by nobody else meanwhile.
  private func writeWaiting() {
    while let piece = state.withLock({ nextPiece(&$0) }) {
      waitUntilWritable()
      let left = rest(of: piece)
      state.withLock { $0.waiting = $0.waiting.dropFirst(piece.count - left.count) }
      // It was writable, and took nothing: not even a byte of it fits.
      if left.count == piece.count { usleep(1000) }
    }
  }

  /// Nil where nothing waits: then the thread is over.
  private func nextPiece(_ state: inout State) -> ArraySlice<UInt8>? {
    // A copy: what waits must not be copied as a whole when something comes to it.
    guard state.waiting.isEmpty else { return Array(state.waiting[..<Self.endOfPiece(state.waiting)])[...] }
    state = State(lost: state.lost)
    return nil
  }

  /// Writes lines as far as the reader takes them, and returns what it does not.
  private func rest(of text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    var text = text
    while !text.isEmpty {
      // Both read from the array within its count.
      let count = unsafe text[..<Self.endOfPiece(text)].withUnsafeBytes { piece in
        way == .socket
          ? unsafe send(file, piece.baseAddress, piece.count, CInt(MSG_DONTWAIT | MSG_NOSIGNAL))
          : unsafe Glibc.write(file, piece.baseAddress, piece.count)
      }
      if count > 0 {
        text = text.dropFirst(count)
      } else if count < 0, errno == EAGAIN {
        return text
      } else if count == 0 || errno != EINTR {
        // Nobody to tell: the log itself is what failed.
        return []
      }
    }
    return text
  }

  /// Whole lines where they fit, and not more than a pipe takes at once.
  private static func endOfPiece(_ text: ArraySlice<UInt8>) -> Int {
    let piece = text.prefix(Int(PIPE_BUF))
    return piece.lastIndex(of: 0x0A).map { $0 + 1 } ?? piece.endIndex
  }

  /// Returns as well where a write would fail.
  private func waitUntilWritable() {
    var asked = pollfd(fd: file, events: Int16(POLLOUT), revents: 0)
    // poll fills the one struct and keeps nothing.
    _ = unsafe poll(&asked, 1, -1)
  }

  private static func kind(of file: Int32) -> mode_t? {
    var status = stat()
    // fstat fills the struct and keeps nothing.
    return unsafe fstat(file, &status) == 0 ? status.st_mode & S_IFMT : nil
  }

  /// The same pipe or terminal, for writing without waiting: what the caller has is shared with whoever started the process, and
  /// so would be a flag that is set on it. Nil where that is not allowed.
  private static func openedAnew(_ file: Int32) -> Int32? {
    // open reads the path and keeps nothing.
    let opened = unsafe open("/proc/self/fd/\(file)", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
    return opened >= 0 ? opened : nil
  }
}
