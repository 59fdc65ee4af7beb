import GRPC
import LatchkeyProtos
import NIOCore
import Testing

@Suite("Health")
struct HealthServiceTests {
  let health = HealthService(services: ["a", "b"])
  let context = ServerContext(method: HealthV1.HealthMethod.check.rpc)

  func status(_ service: String) async throws -> HealthService.Status {
    try await health.check(HealthV1.HealthCheckRequest(service: service), context: context).status
  }

  @Test("each service and the server as a whole have their own status")
  func check() async throws {
    #expect(try await status("") == .notServing)
    health.set(.serving, for: "a")
    #expect(try await status("a") == .serving)
    #expect(try await status("b") == .notServing)
    health.setAll(.serving)
    #expect(try await status("") == .serving)
    #expect(try await status("b") == .serving)
  }

  @Test("a service that is not there is NOT_FOUND")
  func unknown() async {
    await #expect(throws: RPCError(.notFound, "unknown service")) { try await status("c") }
  }

  @Test("a draining server serves nothing, whatever is set later")
  func drain() async throws {
    health.setAll(.serving)
    health.drain()
    health.setAll(.serving)
    health.set(.serving, for: "a")
    #expect(try await status("a") == .notServing)
    #expect(try await status("") == .notServing)
  }

  /// Watches `service` and passes on what is written.
  func watch(_ service: String) -> (Task<RPCError?, Never>, AsyncStream<HealthService.Status>) {
    let (stream, continuation) = AsyncStream.makeStream(of: HealthService.Status.self)
    let (signals, signal) = AsyncStream.makeStream(of: Void.self)
    let outbox = MessageOutbox { signal.yield() }
    Task {
      for await _ in signals {
        for var frame in outbox.take() {
          outbox.sent(frame.readableBytes)
          frame.moveReaderIndex(forwardBy: 5)
          continuation.yield(try HealthV1.HealthCheckResponse(decoding: frame).status)
        }
      }
    }
    let call = Task {
      defer { signal.finish() }
      do throws(RPCError) {
        try await health.watch(
          HealthV1.HealthCheckRequest(service: service), responses: ResponseWriter(outbox), context: context)
        return RPCError?.none
      } catch {
        return error
      }
    }
    return (call, stream)
  }

  @Test("a watch tells the status now, then each change, and ends with the call")
  func watchChanges() async {
    let (call, statuses) = watch("a")
    var iterator = statuses.makeAsyncIterator()
    #expect(await iterator.next() == .notServing)
    health.set(.serving, for: "b")
    health.set(.notServing, for: "a")
    health.set(.serving, for: "a")
    #expect(await iterator.next() == .serving)
    health.drain()
    #expect(await iterator.next() == .notServing)
    call.cancel()
    #expect(await call.value?.code == .cancelled)
  }

  @Test("a watch on a service that is not there waits for it to come")
  func watchUnknown() async {
    let (call, statuses) = watch("later")
    var iterator = statuses.makeAsyncIterator()
    #expect(await iterator.next() == .serviceUnknown)
    health.set(.serving, for: "later")
    #expect(await iterator.next() == .serving)
    call.cancel()
    #expect(await call.value?.code == .cancelled)
  }
}
