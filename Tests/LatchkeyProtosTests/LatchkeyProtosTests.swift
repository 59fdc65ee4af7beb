import GRPC
import NIOCore
import Testing

@testable import LatchkeyProtos

@Suite("Messages on the wire")
struct LatchkeyProtosTests {
  @Test("a message survives the way out and in")
  func roundTrip() throws {
    let token = CommonV1.TokenSet(
      accessToken: "a.b.c", tokenType: "Bearer", expiresIn: 900, scope: "", sid: "ä\u{0}ö",
      serverTime: GoogleProtobuf.Timestamp(seconds: 12, nanos: 5))
    let response = QRV1.PollSessionResponse(state: .confirmed, version: 7, interval: 2, tokens: token)
    var buffer = ByteBuffer()
    try response.encode(into: &buffer)
    let back = try QRV1.PollSessionResponse(decoding: buffer)
    #expect(back == response)
  }
}
