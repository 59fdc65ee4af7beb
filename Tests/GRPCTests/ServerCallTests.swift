import GRPC
import Testing

@Suite("What a call leaves for the next one")
struct ServerCallTests {
  @Test("Buffers of usual messages are kept; large ones are not, for nobody counts them", arguments: [100, 9000])
  func buffers(_ bytes: Int) {
    let call = ServerCall()
    call.request.writeRepeatingByte(1, count: bytes)
    call.answer.writeRepeatingByte(1, count: bytes)
    call.reset()
    #expect(call.request.readableBytes == 0 && call.answer.readableBytes == 0)
    #expect((call.request.capacity > 0) == (bytes == 100))
    #expect((call.answer.capacity > 0) == (bytes == 100))
  }
}
