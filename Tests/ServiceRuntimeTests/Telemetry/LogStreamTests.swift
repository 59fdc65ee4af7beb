import Glibc
import Synchronization
import Testing

@testable import ServiceRuntime

@Suite("The log's stream", .timeLimit(.minutes(1))) struct LogStreamTests {
  enum Kind: CaseIterable {
    case pipe, socket, terminal
    /// That may not be opened anew, such as another user's.
    case foreignPipe
  }

  /// Both ends of what a log may go to, closed with the last reference.
  final class Ends: Sendable {
    let write: CInt
    let stream: LogStream
    private let read: CInt
    private let isReadClosed = Atomic<Bool>(false)

    init(_ kind: Kind) throws {
      switch kind {
      case .pipe, .foreignPipe:
        var ends: [CInt] = [0, 0]
        try #require(unsafe pipe(&ends) == 0)
        (read, write) = (ends[0], ends[1])
      case .socket:
        var ends: [CInt] = [0, 0]
        try #require(unsafe socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0)
        (read, write) = (ends[0], ends[1])
      case .terminal:
        read = unsafe open("/dev/ptmx", O_RDWR | O_NOCTTY)
        var (number, unlocked): (CInt, CInt) = (0, 0)
        // TIOCSPTLCK and TIOCGPTN.
        try #require(unsafe ioctl(read, 0x4004_5431, &unlocked) == 0 && ioctl(read, 0x8004_5430, &number) == 0)
        write = unsafe open("/dev/pts/\(number)", O_WRONLY | O_NOCTTY)
        try #require(write >= 0)
        var settings = termios()
        try #require(unsafe tcgetattr(write, &settings) == 0)
        settings.c_oflag &= ~tcflag_t(OPOST)
        try #require(unsafe tcsetattr(write, TCSANOW, &settings) == 0)
      }
      try #require(fcntl(read, F_SETFL, O_NONBLOCK) == 0)
      stream = LogStream(write, opensAnew: kind != .foreignPipe)
    }

    deinit {
      close(write)
      closeReader()
    }

    func closeReader() {
      if !isReadClosed.exchange(true, ordering: .relaxed) { close(read) }
    }

    /// Reads until something has come after which nothing is wanted.
    func lines(to last: String) async throws -> [String] {
      var bytes: [UInt8] = []
      var piece = [UInt8](repeating: 0, count: 100_000)
      while !bytes.reversed().starts(with: "\(last)\n".utf8.reversed()) {
        let count = unsafe Glibc.read(read, &piece, piece.count)
        if count > 0 { bytes += piece[..<count] } else { try await Task.sleep(for: .milliseconds(1)) }
      }
      return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }
  }

  /// A line of some hundred bytes, and every tenth is longer than a pipe takes at once.
  private static func line(_ number: Int) -> String {
    "\(number) " + String(repeating: "x", count: number % 10 == 9 ? 5000 : 100)
  }

  /// The lines themselves, and how many others are said to be lost.
  private static func told(_ read: ArraySlice<String>) -> (kept: [String], lost: Int) {
    let losses = read.filter { $0.hasSuffix(" lost") }
    return (read.filter { !$0.hasSuffix(" lost") }, losses.reduce(0) { $0 + (Int($1.prefix { $0 != " " }) ?? 0) })
  }

  private func write(_ line: String, to stream: LogStream) {
    stream.write(Array("\(line)\n".utf8)) { Array("\($0) lost\n".utf8) }
  }

  @Test("A line is there as soon as it is written", arguments: Kind.allCases)
  func atOnce(kind: Kind) async throws {
    let ends = try Ends(kind)
    let stream = ends.stream
    for number in 0..<20 {
      write(Self.line(number), to: stream)
      #expect(try await ends.lines(to: Self.line(number)) == [Self.line(number)])
    }
  }

  @Test(
    "Whoever logs does not wait for a reader that stands still, which reads every line later", arguments: Kind.allCases)
  func waits(kind: Kind) async throws {
    let ends = try Ends(kind)
    let stream = ends.stream
    // Some 600 kB; a pipe has room for 64.
    let lines = (0..<1000).map(Self.line)
    for line in lines { write(line, to: stream) }
    stream.finish(within: .milliseconds(10))
    #expect(try await ends.lines(to: #require(lines.last)) == lines)
    // And then as before.
    write("one more", to: stream)
    #expect(try await ends.lines(to: "one more") == ["one more"])
  }

  @Test("Several threads' lines stay whole, and each thread's in order, while a reader comes and goes")
  func threads() async throws {
    let ends = try Ends(.pipe)
    let stream = ends.stream
    let read = try await withThrowingTaskGroup { group in
      for thread in 0..<4 {
        group.addTask {
          for number in 0..<1000 {
            write("\(thread) \(Self.line(number % 9))", to: stream)
            if number % 50 == 0 { try await Task.sleep(for: .milliseconds(1)) }
          }
        }
      }
      try await Task.sleep(for: .milliseconds(5))
      try await group.waitForAll()
      write("end", to: stream)
      return try await ends.lines(to: "end")
    }
    for thread in 0..<4 {
      let expected = (0..<1000).map { "\(thread) \(Self.line($0 % 9))" }
      #expect(read.filter { $0.hasPrefix("\(thread) ") } == expected)
    }
    #expect(read.count == 4001)
  }

  @Test(
    "What is too much to wait is lost, and the next line comes after one that says how many were",
    arguments: Kind.allCases)
  func loses(kind: Kind) async throws {
    let ends = try Ends(kind)
    let stream = ends.stream
    let lines = (0..<4000).map(Self.line)
    for line in lines { write(line, to: stream) }
    async let all = ends.lines(to: "the end")
    // Until there is room again.
    while stream.hasWaiting { try await Task.sleep(for: .milliseconds(1)) }
    write("the end", to: stream)
    let read = try await all
    let (kept, lost) = Self.told(read.dropLast())
    #expect(kept.count + lost == 4000 && kept.count < 3000 && kept.count > 1000)
    // In their order, and whole.
    var expected = lines[...]
    for line in kept { expected = expected.drop { $0 != line }.dropFirst() }
    #expect(expected.count <= 4000 - kept.count && kept.allSatisfy { lines.contains($0) })
  }

  @Test("What tells little leaves room for other lines", arguments: Kind.allCases)
  func minor(kind: Kind) async throws {
    let ends = try Ends(kind)
    for number in 0..<4000 {
      ends.stream.write(Array("\(Self.line(number))\n".utf8), isMinor: true) { Array("\($0) lost\n".utf8) }
    }
    write("somebody signed in", to: ends.stream)
    let read = try await ends.lines(to: "somebody signed in")
    let (kept, lost) = Self.told(read.dropLast())
    #expect(kept.count + lost == 4000 && lost > 1000)
  }

  @Test("Lines for a reader that is gone are given up, whatever waits", arguments: [Kind.pipe, .socket, .foreignPipe])
  func gone(kind: Kind) async throws {
    signal(SIGPIPE, SIG_IGN)
    let ends = try Ends(kind)
    let stream = ends.stream
    for number in 0..<1000 { write(Self.line(number), to: stream) }
    #expect(stream.hasWaiting)
    ends.closeReader()
    while stream.hasWaiting { try await Task.sleep(for: .milliseconds(1)) }
    write("nobody's", to: stream)
    while stream.hasWaiting { try await Task.sleep(for: .milliseconds(1)) }
  }

  @Test("A file is written to where it ends, and what was given stays as it was")
  func file() throws {
    let file = unsafe fileno(tmpfile())
    try #require(unsafe Glibc.write(file, "before\n", 7) == 7)
    let stream = LogStream(file)
    write("after", to: stream)
    var read = [UInt8](repeating: 0, count: 20)
    #expect(unsafe pread(file, &read, 20, 0) == 13)
    #expect(String(decoding: read[..<13], as: UTF8.self) == "before\nafter\n")
    let ends = try Ends(.pipe)
    _ = LogStream(ends.write)
    #expect(fcntl(ends.write, F_GETFL) & O_NONBLOCK == 0)
  }
}
