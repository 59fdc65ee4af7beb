import GRPC
import LatchkeyProtos
import NIOCore
import TestSupport
import Testing

@Suite("Hostile messages")
struct HostileMessageTests {
  func code<Message: RPCMessage>(of type: Message.Type, _ buffer: ByteBuffer) -> StatusCode? {
    do throws(RPCError) {
      _ = try Message(decoding: buffer)
      return nil
    } catch {
      return error.code
    }
  }

  @Test(
    "text that is not UTF-8 is refused with the field's path",
    arguments: [
      ("0a02c328", "sub"), ("0a01ff", "sub"), ("0a03eda080", "sub"), ("0a02c080", "sub"), ("0a04f4908080", "sub"),
    ])
  func invalidUTF8(hex: String, field: String) {
    #expect(throws: RPCError.invalid(field, "is not valid UTF-8")) {
      try CommonV1.Subject(decoding: buffer(hex: hex))
    }
  }

  @Test("the path leads through nested and repeated messages")
  func nestedPath() {
    // device(2){public_key(2){x(3)}}
    #expect(throws: RPCError.invalid("device.public_key.x", "is not valid UTF-8")) {
      try IdentityV1.IssueGuestRequest(decoding: buffer(hex: "1205" + "1203" + "1a01ff"))
    }
    // records(1){}, records(1){key(2)}
    #expect(throws: RPCError.invalid("records[1].key", "is not valid UTF-8")) {
      try MigrationV1.PutRecordsRequest(decoding: buffer(hex: "0a00" + "0a03" + "1201ff"))
    }
    // aud(8) "a", aud(8) bad
    #expect(throws: RPCError.invalid("aud[1]", "is not valid UTF-8")) {
      try IdentityV1.IntrospectResponse(decoding: buffer(hex: "420161" + "4201ff"))
    }
    #expect(throws: RPCError.invalid("qr_payload", "is not valid UTF-8")) {
      try QRV1.ScanSessionRequest(decoding: buffer(hex: "0a01ff"))
    }
  }

  @Test("a NUL does not end a string")
  func embeddedNUL() throws {
    let subject = try CommonV1.Subject(decoding: buffer(hex: "0a03610062"))
    #expect(subject.sub == "a\u{0}b")
    #expect(subject.sub != "a")
  }

  @Test("every prefix of a message is the message of its whole fields, or refused, and nothing else")
  func truncated() {
    let whole = bytes(hex: PythonVectors.pollSessionResponse)
    var refused = 0
    for count in 0..<whole.count {
      let code = code(of: QRV1.PollSessionResponse.self, ByteBuffer(bytes: whole[..<count]))
      #expect(code == nil || code == .invalidArgument)
      if code != nil { refused += 1 }
    }
    // Only cuts between its five top-level fields leave a message.
    #expect(refused == whole.count - 5)
  }

  @Test(
    "a length beyond the end is refused without reading or reserving it",
    arguments: [
      "0affffffff0f61",  // 4 GiB - 1
      "0a808080801061",  // 4 GiB
      "0affffffffffffffffff0161",  // 2^64 - 1
      "0affffffffffffffffffff61",  // a varint without an end
      "0a02", "0a", "0a80",
    ])
  func hugeLength(hex: String) {
    #expect(code(of: CommonV1.Subject.self, buffer(hex: hex)) == .invalidArgument)
  }

  @Test(
    "bad tags and wire types are refused",
    arguments: [
      "00",  // field number 0
      "0b0c",  // a group
      "0e", "0f",  // wire types 6 and 7
      "ffffffffffffffffffff01",  // a tag of ten bytes
      "0801",  // sub as a varint
    ])
  func badTags(hex: String) {
    #expect(code(of: CommonV1.Subject.self, buffer(hex: hex)) == .invalidArgument)
  }

  @Test("a message that would grow beyond its cap is refused as too costly")
  func arenaCap() {
    // 2 bytes of wire for each empty record.
    let records = ByteBuffer(bytes: (0..<200_000).flatMap { _ in [0x0a, 0x00] as [UInt8] })
    #expect(code(of: MigrationV1.PutRecordsRequest.self, records) == .resourceExhausted)
    // The thread's arena is whole again afterwards.
    #expect(code(of: CommonV1.TokenSet.self, buffer(hex: PythonVectors.tokenSet)) == nil)
  }

  @Test("nesting deeper than the types go is only bytes")
  func deepNesting() {
    // Each level is field 9 (server_time of TokenSet is a message) that holds the next; below two levels nothing is
    // a message any more, so the depth of the stack does not follow the peer.
    var message: [UInt8] = []
    for _ in 0..<10_000 {
      var length: [UInt8] = []
      var rest = message.count
      repeat {
        length.append(UInt8(rest & 0x7f) | (rest > 0x7f ? 0x80 : 0))
        rest >>= 7
      } while rest > 0
      message = [0x4a] + length + message
    }
    #expect(code(of: CommonV1.TokenSet.self, ByteBuffer(bytes: message)) == nil)
  }

  @Test("random bytes and damaged messages end in a message or a clean refusal")
  func randomBytes() throws {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededRandom(seed: seed)
    let good = bytes(hex: PythonVectors.pollSessionResponse)
    for round in 0..<20_000 {
      var message: [UInt8]
      if round.isMultiple(of: 2) {
        message = (0..<Int.random(in: 0...64, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      } else {
        message = good
        for _ in 0..<Int.random(in: 1...4, using: &random) {
          message[Int.random(in: 0..<message.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
        }
      }
      do throws(RPCError) {
        let decoded = try QRV1.PollSessionResponse(decoding: ByteBuffer(bytes: message))
        // What was read can be written, and means the same then.
        var written = ByteBuffer()
        try decoded.encode(into: &written)
        #expect(try QRV1.PollSessionResponse(decoding: written) == decoded, "seed \(seed), round \(round)")
      } catch {
        #expect([.invalidArgument, .resourceExhausted].contains(error.code), "seed \(seed), round \(round): \(error)")
      }
    }
  }
}
