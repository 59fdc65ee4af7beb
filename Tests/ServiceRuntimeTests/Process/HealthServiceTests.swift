import GRPC
import LatchkeyProtos
import NIOCore
import ServiceRuntime
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

  /// Watches `service` and passes on what is written, until the watch ends.
  func watch(
    _ service: String, at health: HealthService? = nil, from address: String = ""
  ) -> (Task<RPCError?, Never>, AsyncStream<HealthService.Status>) {
    let health = health ?? self.health
    let context = ServerContext(method: HealthV1.HealthMethod.watch.rpc, peer: Peer(address: address, port: 1))
    let (stream, continuation) = AsyncStream.makeStream(of: HealthService.Status.self)
    let (signals, signal) = AsyncStream.makeStream(of: Void.self)
    let outbox = MessageOutbox { signal.yield() }
    Task {
      defer { continuation.finish() }
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

  // MARK: Places

  /// A watch that has heard the first status, and so has a place.
  private func placed(_ health: HealthService, from address: String) async -> Task<RPCError?, Never> {
    let (call, statuses) = watch("a", at: health, from: address)
    var iterator = statuses.makeAsyncIterator()
    let status = await iterator.next()
    #expect(status == .notServing)
    return call
  }

  /// How a watch ends for which there is no place.
  private func refusal(_ health: HealthService, from address: String) async -> RPCError? {
    let (call, statuses) = watch("a", at: health, from: address)
    var iterator = statuses.makeAsyncIterator()
    if await iterator.next() != nil { call.cancel() }
    return await call.value
  }

  private func isToldWhy(_ error: RPCError?) -> Bool {
    error?.code == .resourceExhausted && error?.details.reason == "OVERLOADED"
      && (error?.details.retryAfter ?? .zero) > .zero
  }

  /// How watches end: those first that end by themselves, which are to be `taken` ones, then the others, cancelled.
  private func ends(of calls: [Task<RPCError?, Never>], taken: Int) async -> [RPCError?] {
    await withTaskGroup(of: RPCError?.self) { group in
      for call in calls {
        group.addTask {
          await withTaskCancellationHandler {
            await call.value
          } onCancel: {
            call.cancel()
          }
        }
      }
      var ends: [RPCError?] = []
      while ends.count < taken, let end = await group.next() { ends.append(end) }
      for call in calls { call.cancel() }
      for await end in group { ends.append(end) }
      return ends
    }
  }

  @Test(
    "R50: watches of one address shut out no other's: it gives up places until the other has as many, and is told why",
    .timeLimit(.minutes(1)),
    arguments: [
      (["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.1"], "192.0.2.1", "198.51.100.7"),
      // One subscriber.
      (["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"], "2001:db8::5", "2001:db8:0:1::1"),
      // Callers without an address are one.
      (["", "", "", ""], "", "2001:db8::1"),
    ])
  func shares(many: [String], oneMore: String, other: String) async {
    let health = HealthService(services: ["a"], places: 4)
    var calls: [Task<RPCError?, Never>] = []
    for address in many { calls.append(await placed(health, from: address)) }
    let refused = await refusal(health, from: oneMore)
    #expect(isToldWhy(refused))
    let others = [await placed(health, from: other), await placed(health, from: other)]
    let third = await refusal(health, from: other)
    #expect(isToldWhy(third))
    let ends = await ends(of: calls, taken: 2)
    #expect(ends.prefix(2).allSatisfy { isToldWhy($0) })
    #expect(ends.suffix(2).map { $0?.code } == [.cancelled, .cancelled])
    #expect(health.watchCount == 2)
    for call in others { call.cancel() }
    let otherEnds = [await others[0].value, await others[1].value]
    #expect(otherEnds.map { $0?.code } == [.cancelled, .cancelled] && health.watchCount == 0)
    // What was given back is there for the next one.
    let next = await placed(health, from: oneMore)
    next.cancel()
    _ = await next.value
  }

  @Test("R50: a port has places of its own, and says the same as the other", .timeLimit(.minutes(1)))
  func ports() async {
    let health = HealthService(services: ["a"], places: 2)
    let management = health.atAnotherPort()
    let strangers = [await placed(health, from: "192.0.2.1"), await placed(health, from: "198.51.100.7")]
    let refused = await refusal(health, from: "203.0.113.9")
    #expect(isToldWhy(refused))
    let (probe, statuses) = watch("a", at: management, from: "127.0.0.1")
    var iterator = statuses.makeAsyncIterator()
    let first = await iterator.next()
    health.setAll(.serving)
    let second = await iterator.next()
    management.drain()
    let third = await iterator.next()
    #expect([first, second, third] == [.notServing, .serving, .notServing])
    health.setAll(.serving)
    let draining = try? await health.check(HealthV1.HealthCheckRequest(service: "a"), context: context).status
    #expect(draining == .notServing)
    #expect(health.watchCount == 2 && management.watchCount == 1)
    for call in strangers + [probe] { call.cancel() }
    for call in strangers + [probe] { _ = await call.value }
    #expect(health.watchCount == 0 && management.watchCount == 0)
  }
}
