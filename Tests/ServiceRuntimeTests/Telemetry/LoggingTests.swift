import GRPC
import JSON
import LatchkeyModel
import Logging
import Storage
import Synchronization
import TestSupport
import Testing

@testable import ServiceRuntime

@Suite("Logs")
struct LoggingTests {
  /// Lines as a log collector would read them.
  final class Lines: Sendable {
    private let lines = Mutex<[[UInt8]]>([])
    private let minor = Mutex(0)
    private let losses = Mutex<[[UInt8]]>([])

    var all: [[UInt8]] { lines.withLock { $0 } }
    /// How many of them tell little.
    var minorCount: Int { minor.withLock { $0 } }
    /// What would be said of seven lines before each that are lost.
    var allLosses: [[UInt8]] { losses.withLock { $0 } }

    @Sendable func write(_ line: [UInt8], _ isMinor: Bool, _ loss: (Int) -> [UInt8]) {
      lines.withLock { $0.append(line) }
      if isMinor { minor.withLock { $0 += 1 } }
      losses.withLock { $0.append(loss(7)) }
    }
  }

  let lines = Lines()
  let clock = ManualClock(Timestamp(millisecondsSinceEpoch: 1_800_000_000_123))

  private func logger(_ level: Logger.Level = .info) -> Logger {
    Logger(label: "test") { label in
      LineLogHandler(label: label, level: level, clock: clock, write: lines.write)
    }
  }

  private func documents() throws -> [JSONValue] {
    try lines.all.map { line in
      #expect(line.last == 0x0A)
      #expect(line.dropLast().allSatisfy { $0 >= 0x20 })
      return try JSONValue(parsing: Array(line.dropLast()))
    }
  }

  @Test("Of a store that fails each call there is a line a second, and none of what is no failure of the store")
  func storageFailures() throws {
    let log = StorageFailureLog(logger())
    func fail(_ fault: StorageError.Fault, times: Int = 1) {
      for _ in 0..<times { log.note(StorageError(fault, operation: "look", detail: "why"), at: clock.now()) }
    }
    for fault in [StorageError.Fault.cancelled, .overloaded, .superseded] { fail(fault, times: 1000) }
    #expect(lines.all.isEmpty)
    fail(.full, times: 1000)
    #expect(lines.all.count == 1)
    clock.advance(by: .seconds(1))
    fail(.unavailable, times: 1000)
    let documents = try documents()
    #expect(documents.count == 2 && documents.allSatisfy { $0["message"]?.string == "storage failed" })
    #expect(documents.last?["suppressed_lines"]?.string == "999")
  }

  @Test("R42: one event is one line of JSON, whatever its values contain")
  func injection() throws {
    let hostile = "a\nb\r\n{\"level\":\"error\"}\u{0}\u{1B}[31m\u{2028}\" \\"
    logger().warning(
      "\(hostile)",
      metadata: ["peer": "\(hostile)", "list": ["\(hostile)"], "map": ["k": "\(hostile)"]]
    )
    let document = try #require(try documents().first)
    #expect(lines.all.count == 1)
    #expect(document["message"]?.string == hostile)
    #expect(document["peer"]?.string == hostile)
    #expect(document["list"] == [.string(hostile)])
    #expect(document["map"] == ["k": .string(hostile)])
    #expect(document["level"] == "warning")
    #expect(document["time"] == "2027-01-15T08:00:00.123Z")
  }

  @Test("R42: that lines are lost is a line of its own, and what was done has more room than what was refused")
  func losses() throws {
    logger().info("a call was refused")
    logger().notice("somebody signed in", metadata: ["sub": "x"])
    #expect(lines.all.count == 2 && lines.minorCount == 1)
    for loss in lines.allLosses {
      let document = try JSONValue(parsing: Array(loss.dropLast()))
      #expect(loss.last == 0x0A && document["level"] == "warning" && document["lines"]?.string == "7")
      #expect(document["sub"] == nil)
    }
  }

  @Test("R42: one event is one line of text, whatever its values contain")
  func text() throws {
    let logger = Logger(label: "test") { label in
      LineLogHandler(label: label, level: .info, format: .text, clock: clock, write: lines.write)
    }
    let hostile = "a\nb\r\u{1B}[31m\u{2028}\u{202E}\u{9B}2J\" x=y"
    logger.warning(
      "\(hostile)", metadata: ["peer": "\(hostile)", "plain": "1.2.3.4", "access_token": "x", "z": ["\(hostile)"]])
    let line = String(decoding: try #require(lines.all.first), as: UTF8.self)
    #expect(lines.all.count == 1 && line.hasSuffix("\n"))
    #expect(line.dropLast().unicodeScalars.allSatisfy { (0x20...0x7E).contains($0.value) })
    #expect(line.hasPrefix(#"08:00:00.123 WARNING  a\u{a}b\u{d}\u{1b}[31m"#))
    #expect(
      line.contains(
        #" access_token=[redacted] peer="a\u{a}b\u{d}\u{1b}[31m\u{2028}\u{202e}\u{9b}2J\" x=y" plain=1.2.3.4 "#))
  }

  @Test("Whoever waits for another service warns once, and only when that takes longer than a start does")
  func patience() {
    var warning = PatientWarning(.seconds(2))
    let start = ContinuousClock.now
    #expect([0, 1, 2, 3, 9].map { warning.failed(at: start + .seconds($0)) } == [false, false, true, false, false])
    warning.succeeded()
    #expect([10, 11, 12, 13].map { warning.failed(at: start + .seconds($0)) } == [false, false, true, false])
  }

  @Test("a field cannot pass for one of the line's own")
  func reserved() throws {
    logger().info("real", metadata: ["message": "false", "level": "critical", "time": "never"])
    let document = try #require(try documents().first)
    #expect(document["message"] == "real")
    #expect(document["level"] == "info")
    #expect(document["message_"] == "false")
  }

  @Test("R2: fields that are named like secrets are redacted, also inside others")
  func redaction() throws {
    logger().info(
      "x",
      metadata: [
        "password": "hunter2", "refresh_token": "hunter2", "Authorization": "hunter2", "sub": "u_1",
        "request": ["deviceProof": "hunter2", "client_id": "app"],
      ]
    )
    #expect(!String(decoding: lines.all[0], as: UTF8.self).contains("hunter2"))
    let document = try #require(try documents().first)
    #expect(document["sub"] == "u_1")
    #expect(document["request"]?["client_id"] == "app")
  }

  @Test("R2: a name is a secret's wherever it has the word and in whatever letters, and no other name is")
  func secretNames() {
    let secret = [
      "token", "x-SECRET-y", "refreshToken", "DEVICE_CODE", "toketoken", "aotp", "TO\u{212A}EN", "größe_des_Tickets",
      "Proof\u{301}s",
    ]
    for name in secret { #expect(SecretNames.contains(name), "\(name)") }
    let plain = ["", "t", "toke", "device@code", "device\u{7f}code", "device_id", "status", "ünter", "method", "peer"]
    for name in plain { #expect(!SecretNames.contains(name), "\(name)") }
  }

  @Test("a long text is cut, a level below the threshold writes nothing")
  func bounds() throws {
    logger().info("\(String(repeating: "x", count: 1_000_000))")
    logger().debug("quiet")
    #expect(lines.all.count == 1)
    #expect(lines.all[0].count < 2 * Limits.logTextBytes)
  }

  @Test("times are right at the calendar's corners")
  func times() {
    for (seconds, text): (Int64, String) in [
      (0, "1970-01-01T00:00:00.000Z"), (951_782_400, "2000-02-29T00:00:00.000Z"),
      (951_868_799, "2000-02-29T23:59:59.000Z"), (1_709_164_800, "2024-02-29T00:00:00.000Z"),
      (4_107_542_399, "2100-02-28T23:59:59.000Z"), (4_107_542_400, "2100-03-01T00:00:00.000Z"),
      (-1, "1969-12-31T23:59:59.000Z"), (253_402_300_799, "9999-12-31T23:59:59.000Z"),
    ] {
      #expect(Timestamp(secondsSinceEpoch: seconds).rfc3339 == text)
    }
    #expect(Timestamp(millisecondsSinceEpoch: -1).rfc3339 == "1969-12-31T23:59:59.999Z")
  }

  private func finish(
    _ interceptor: CallLogInterceptor,
    _ status: StatusCode,
    caller: Caller? = nil
  ) {
    let context = ServerContext(
      method: RPCMethod(path: "/test.Test/Do", kind: .unary),
      metadata: ["authorization": "Bearer hunter2"],
      peer: Peer(address: "192.0.2.7", port: 1)
    )
    if let caller { context[CallerKey.self] = caller }
    interceptor.didFinish(context, status: status, duration: .milliseconds(5))
  }

  @Test("R42: refused and failed calls say who, where, what and how; calls that went well say nothing")
  func callLog() throws {
    let interceptor = CallLogInterceptor(logger: logger(), clock: clock)
    let subject = try TokenFixture().claims()
    for status in StatusCode.allCases {
      finish(interceptor, status, caller: .subject(AuthenticatedSubject(subject)))
    }
    let documents = try documents()
    #expect(
      Set(documents.compactMap { $0["status"]?.string })
        == ["unauthenticated", "permissionDenied", "unavailable", "unknown", "internal", "dataLoss"]
    )
    for document in documents {
      #expect(document["method"] == "/test.Test/Do")
      #expect(document["peer"] == "192.0.2.7")
      #expect(document["sub"] == "u_1")
      #expect(document["sid"] == "s_u_1")
      #expect(document["duration_ms"] == "5")
    }
    #expect(!lines.all.contains { String(decoding: $0, as: UTF8.self).contains("hunter2") })
  }

  @Test("a flood of refused calls writes a bounded number of lines, and says how many were left out")
  func flood() throws {
    let interceptor = CallLogInterceptor(logger: logger(), clock: clock)
    for _ in 0..<10_000 { finish(interceptor, .unauthenticated) }
    #expect(lines.all.count == Limits.callLogLinesPerSecond)
    clock.advance(by: .seconds(1))
    finish(interceptor, .unauthenticated)
    #expect(lines.all.count == Limits.callLogLinesPerSecond + 1)
    #expect(try documents().last?["suppressed_lines"]?.string == "\(10_000 - Limits.callLogLinesPerSecond)")
  }
}
