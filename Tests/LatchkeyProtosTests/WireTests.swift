import GRPC
import LatchkeyProtos
import NIOCore
import Testing

@Suite("Messages on the wire")
struct WireTests {
  static let tokens = CommonV1.TokenSet(
    accessToken: "header.payload.signature",
    tokenType: "DPoP",
    expiresIn: 900,
    refreshToken: "r",
    refreshExpiresIn: 1 << 40,
    scope: "a b",
    sid: "s\u{0}☃😀",
    cnfJkt: "k",
    serverTime: GoogleProtobuf.Timestamp(seconds: 1_700_000_000, nanos: 123_000_000)
  )

  /// Both ways: what Python wrote reads as `message`, and `message` is written as Python wrote it.
  func expect<Message: RPCMessage & Equatable>(
    _ message: Message,
    is hex: String,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    #expect(try Message(decoding: buffer(hex: hex)) == message, sourceLocation: sourceLocation)
    var written = ByteBuffer()
    try message.encode(into: &written)
    #expect(Array(written.readableBytesView) == bytes(hex: hex), sourceLocation: sourceLocation)
  }

  @Test("every kind of field reads and writes as in another implementation")
  func vectors() throws {
    try expect(Self.tokens, is: PythonVectors.tokenSet)
    try expect(
      QRV1.PollSessionResponse(
        state: .confirmed, version: 7, interval: -1, tokens: Self.tokens, subject: CommonV1.Subject(sub: "u_1")),
      is: PythonVectors.pollSessionResponse)
    try expect(QRV1.ScanSessionRequest(code: .userCode("BCDF-GHJK")), is: PythonVectors.scanByCode)
    try expect(
      MigrationV1.PutRecordsRequest(records: [
        MigrationV1.Record(collection: "notes", key: "k0"),
        MigrationV1.Record(collection: "notes", key: "k1", value: [0, 1], number: -1),
        MigrationV1.Record(collection: "notes", key: "k2", value: [0, 1, 2, 3], number: -2),
      ]), is: PythonVectors.putRecords)
    try expect(
      IdentityV1.IssueGuestRequest(
        clientID: "app",
        device: IdentityV1.Device(deviceID: "d", publicKey: CommonV1.EcPublicJwk(x: "x"), reinstalled: true),
        proof: [0, 0xff, 0],
        locale: "de-CH"
      ), is: PythonVectors.issueGuest)
    try expect(
      IdentityV1.IntrospectResponse(active: true, aud: ["a", "", "b"]), is: PythonVectors.repeatedString)
    try expect(IdentityV1.RevokeResponse(), is: PythonVectors.empty)
  }

  @Test("a repeated enum reads packed, keeps numbers without a name, and survives its own way out and in")
  func repeatedEnum() throws {
    let conflict = IdentityV1.Conflict(linkTicket: "t", choices: [.report, .merge, .unrecognized(77)])
    #expect(try IdentityV1.Conflict(decoding: buffer(hex: PythonVectors.repeatedEnum)) == conflict)
    var written = ByteBuffer()
    try conflict.encode(into: &written)
    #expect(try IdentityV1.Conflict(decoding: written) == conflict)
  }

  @Test("an enum keeps a number that it has no name for")
  func unknownEnum() throws {
    try expect(QRV1.PollSessionResponse(state: .unrecognized(99)), is: PythonVectors.unknownState)
    try expect(QRV1.PollSessionResponse(state: .unrecognized(-5)), is: PythonVectors.negativeState)
    #expect(QRV1.SessionState(rawValue: 1) == .pending)
  }

  @Test("a oneof that holds an empty string is not an absent one")
  func emptyOneof() throws {
    try expect(QRV1.ScanSessionRequest(code: .qrPayload("")), is: PythonVectors.scanByEmptyPayload)
    #expect(try QRV1.ScanSessionRequest(decoding: ByteBuffer()).code == nil)
  }

  @Test("fields of a newer peer are passed over")
  func unknownFields() throws {
    // Field 2000 as a varint, as bytes and as 64 bits, around sub = "u".
    let message = try CommonV1.Subject(decoding: buffer(hex: "807d01" + "0a0175" + "827d0161" + "817d0000000000000000"))
    #expect(message == CommonV1.Subject(sub: "u"))
  }

  @Test("a field that comes twice has its last value, and a message is merged")
  func repeatedSingular() throws {
    #expect(try CommonV1.Subject(decoding: buffer(hex: "0a0161" + "0a0162")).sub == "b")
    // subject{sub "a"}, then subject{is_guest true}.
    let merged = try QRV1.PollSessionResponse(decoding: buffer(hex: "32030a0161" + "32021001"))
    #expect(merged.subject == CommonV1.Subject(sub: "a", isGuest: true))
  }
}
