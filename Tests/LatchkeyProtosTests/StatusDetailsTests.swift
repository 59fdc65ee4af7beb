import GRPC
import LatchkeyProtos
import Testing

@Suite("Error details")
struct StatusDetailsTests {
  static var error: RPCError {
    var error = RPCError(
      .resourceExhausted, "slow down", reason: "slow_down", info: [RPCError.KeyValue("interval", "7")],
      retryAfter: .milliseconds(7500))
    error.details.fieldViolations = [
      RPCError.FieldViolation(field: "device.public_key.x", description: "is not on the curve")
    ]
    return error
  }

  @Test("details are written as Python's google.rpc.Status, and read back")
  func vector() throws {
    #expect(StatusDetails.encode(Self.error) == bytes(hex: PythonVectors.status))
    #expect(StatusDetails.decode(bytes(hex: PythonVectors.status)) == Self.error.details)
  }

  @Test("an error without details has no trailer")
  func none() {
    #expect(StatusDetails.encode(RPCError(.notFound, "no")) == nil)
  }

  @Test("a trailer that is no Status is no error of its own")
  func garbage() {
    #expect(StatusDetails.decode([0xff, 0xff]) == nil)
    #expect(StatusDetails.decode([]) == RPCError.Details())
  }

  @Test("details of types that we do not know are passed over")
  func foreignDetail() {
    // details(3) { type_url(1) "x" }
    #expect(StatusDetails.decode(bytes(hex: "1a03" + "0a0178")) == RPCError.Details())
  }
}
