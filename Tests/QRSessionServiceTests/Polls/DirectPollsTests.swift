import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import NIOCore
import TestSupport
import Testing

@testable import QRSessionService

@Suite struct DirectPollsTests {
  private func message(_ code: String, lastVersion: Int64 = 0) throws -> [UInt8] {
    var frame = ByteBuffer()
    try QRV1.PollSessionRequest(deviceCode: code, lastVersion: lastVersion).encodeFrame(into: &frame)
    return Array(frame.readableBytesView.dropFirst(5))
  }

  /// What the polls' own way says.
  private func slow(_ harness: Harness, _ code: String) async throws -> [UInt8] {
    var frame = ByteBuffer()
    let request = QRV1.PollSessionRequest(deviceCode: code)
    try await harness.api.pollSession(request, context: .screen()).encodeFrame(into: &frame)
    return Array(frame.readableBytesView)
  }

  private func answer(_ polls: DirectPolls, _ message: [UInt8]) throws -> [UInt8]? {
    var frame = ByteBuffer()
    return try polls.answer(message.span, into: &frame) ? Array(frame.readableBytesView) : nil
  }

  private func foresee(_ polls: DirectPolls, _ message: [UInt8]) -> Bool {
    polls.foresee(message.span)
  }

  @Test("a poll that was foreseen is answered by its own code, in whatever order they come", arguments: UInt64(0)..<20)
  func foreseen(seed: UInt64) async throws {
    let cell = seed % 2 == 0 ? Cell.first : Cell(UInt16(seed) * 777)
    let harness = try Harness(in: TemporaryFolder(), cell: cell) { $0.interval = .zero }
    // Two that no answer of another could be taken for: one scanned, one denied.
    let issued = [try await harness.issue(), try await harness.issue(), try await harness.issue()]
    _ = try await harness.scan(issued[1])
    _ = try await harness.api.cancelSession(
      QRV1.CancelSessionRequest(deviceCode: issued[2].deviceCode), context: .screen())
    let codes = issued.map(\.deviceCode) + [String(repeating: "A", count: 43), "short", ""]
    let expected = [try await slow(harness, codes[0]), try await slow(harness, codes[1])]
    #expect(expected[0] != expected[1])

    let polls = DirectPolls(harness.api, fetchedPieces: 0)
    var random = SeededRandom(seed: seed)
    for _ in 0..<500 {
      let number = Int(random.next() % UInt64(codes.count))
      let message = try message(codes[number])
      if random.next() % 2 == 0 {
        #expect(foresee(polls, message))
        continue
      }
      switch number {
      case 0, 1: #expect(try answer(polls, message) == expected[number])
      case 2:
        let refusal = #expect(throws: RPCError.self) { try answer(polls, message) }
        #expect(refusal?.code == .failedPrecondition || refusal?.code == .aborted, "\(String(describing: refusal))")
      default: #expect(try answer(polls, message) == nil)
      }
    }
  }

  @Test("a code that differs in one place is another code, foreseen or not")
  func similarCodes() async throws {
    let harness = try Harness { $0.interval = .zero }
    let issued = try await harness.issue()
    let polls = DirectPolls(harness.api, fetchedPieces: 0)
    for place in 0..<43 {
      var code = Array(issued.deviceCode.utf8)
      code[place] = code[place] == 0x42 ? 0x43 : 0x42
      #expect(foresee(polls, try message(issued.deviceCode)))
      #expect(try answer(polls, message(String(decoding: code, as: UTF8.self))) == nil, "place \(place)")
    }
  }

  @Test(
    "C16: a poll by a code that names another cell, or none, is left to the way that refuses it",
    arguments: [0, 3, 65_535])
  func cells(number: UInt16) async throws {
    let harness = try Harness(in: TemporaryFolder(), cell: Cell(number)) { $0.interval = .zero }
    let code = try await harness.issue().deviceCode
    let rest = String(code.dropFirst(Cell(number).prefix.count))
    let polls = DirectPolls(harness.api, fetchedPieces: 0)
    let expected = try await slow(harness, code)
    for isForeseen in [false, true] {
      if isForeseen { #expect(foresee(polls, try message(code))) }
      #expect(try answer(polls, message(code)) == expected)
    }
    for prefix in ["", "4.", "33.", "3.", "3", "65535.", "65534."] where prefix != Cell(number).prefix {
      let other = try message(prefix + rest)
      #expect(foresee(polls, other))
      #expect(try answer(polls, other) == nil, "\(prefix)")
      let refusal = await #expect(throws: RPCError.self) { try await slow(harness, prefix + rest) }
      let isCode = prefix.isEmpty || prefix.hasSuffix(".")
      #expect(refusal?.details.reason == (isCode ? "OTHER_CELL" : nil), "\(prefix)")
      if isCode { #expect(refusal?.details.info.first?.value == "\(prefix.isEmpty ? "0" : prefix.dropLast())") }
    }
  }

  @Test("a table that caches hold is not looked at ahead")
  func smallTable() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    #expect(!foresee(DirectPolls(harness.api), try message(issued.deviceCode)))
  }

  @Test("S14: polls that are answered directly are throttled like others")
  func throttled() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let polls = DirectPolls(harness.api, fetchedPieces: 0)
    let message = try message(issued.deviceCode)
    #expect(try answer(polls, message) != nil)
    #expect(foresee(polls, message))
    let refusal = #expect(throws: RPCError.self) { try answer(polls, message) }
    #expect(refusal?.code == .resourceExhausted)
  }
}
