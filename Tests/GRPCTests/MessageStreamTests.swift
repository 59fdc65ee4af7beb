import NIOCore
import Synchronization
import Testing

@testable import GRPC

@Suite struct MessageStreamTests {
  /// Reads all that comes.
  private static func reader(_ inbox: MessageInbox) -> Task<[[UInt8]], any Error> {
    Task {
      var messages: [[UInt8]] = []
      for try await message in RequestStream<Blob>(inbox) { messages.append(message.bytes) }
      return messages
    }
  }

  @Test("Messages come in order, then the end")
  func order() async throws {
    let consumed = Atomic<Int>(0)
    let inbox = MessageInbox { consumed.add($0, ordering: .relaxed) }
    let reader = Self.reader(inbox)
    for index in 0..<100 {
      inbox.deliver(ReceivedMessage(bytes: ByteBuffer(bytes: [UInt8(index)])))
      if index % 10 == 0 { await Task.yield() }
    }
    inbox.finish()
    #expect(try await reader.value == (0..<100).map { [UInt8($0)] })
    let total = consumed.load(ordering: .relaxed)
    #expect(total == 100)
  }

  @Test("A reader that never has to wait is asked to pause, and misses nothing")
  func pause() async throws {
    let pauses = Atomic<Int>(0)
    let inbox = MessageInbox(pause: { pauses.add(1, ordering: .relaxed) }, consumed: { _ in })
    let count = 100
    for index in 0..<count { inbox.deliver(ReceivedMessage(bytes: ByteBuffer(bytes: [UInt8(index & 255)]))) }
    inbox.finish()
    var read = 0
    while let message = try await inbox.next() {
      #expect(message.bytes == ByteBuffer(bytes: [UInt8(read & 255)]))
      read += 1
    }
    #expect(read == count)
    #expect(pauses.load(ordering: .relaxed) == count)
  }

  @Test("Messages that wait keep their order, their bytes and their flags, while others come and go")
  func waiting() {
    var waiting = WaitingMessages()
    var expected: [ReceivedMessage] = []
    for round in 0..<200 {
      for size in [0, 1, round, 3000] {
        let message = ReceivedMessage(
          bytes: ByteBuffer(repeating: UInt8(round), count: size), isCompressed: (round + size) % 3 == 0)
        waiting.append(message)
        expected.append(message)
      }
      for _ in 0..<(round < 100 ? 3 : 5) where !expected.isEmpty {
        let next = expected.removeFirst()
        let got = waiting.popFirst()
        #expect(got?.bytes == next.bytes)
        #expect(got?.isCompressed == next.isCompressed)
      }
      #expect(waiting.count == expected.count)
    }
    #expect(expected.isEmpty)
    #expect(waiting.popFirst() == nil)
  }

  @Test(
    "A run of messages reaches a reader that waits, and one that comes later, one by one", arguments: [true, false])
  func runs(waits: Bool) async throws {
    let consumed = Atomic<Int>(0)
    let inbox = MessageInbox { consumed.add($0, ordering: .relaxed) }
    let reader = Self.reader(inbox)
    if waits { for _ in 0..<100 { await Task.yield() } }
    let run: [UInt8] = [0, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8, 9]
    // Copied before the call returns.
    unsafe run.withUnsafeBytes { unsafe inbox.deliver($0, count: 3) }
    inbox.finish()
    #expect(try await reader.value == [[7], [], [8, 9]])
    #expect(consumed.load(ordering: .relaxed) == 3)
    unsafe run.withUnsafeBytes { unsafe inbox.deliver($0, count: 3) }
    #expect(inbox.waiting == 0)
  }

  @Test("An empty message counts as one that the reader took")
  func emptyMessage() async throws {
    let taken = Mutex<[Int]>([])
    let inbox = MessageInbox { size in taken.withLock { $0.append(size) } }
    inbox.deliver(ReceivedMessage(bytes: ByteBuffer()))
    #expect(try await inbox.next()?.bytes == ByteBuffer())
    #expect(taken.withLock { $0 } == [0])
  }

  @Test("An error overtakes the messages that wait")
  func failure() async throws {
    let inbox = MessageInbox { _ in }
    inbox.deliver(ReceivedMessage(bytes: ByteBuffer(bytes: [1])))
    inbox.finish(RPCError(.deadlineExceeded, "late"))
    let error = await #expect(throws: RPCError.self) { try await inbox.next() }
    #expect(error?.code == .deadlineExceeded)
  }

  @Test("A status comes after the messages that went before it")
  func status() async throws {
    let inbox = MessageInbox { _ in }
    inbox.deliver(ReceivedMessage(bytes: ByteBuffer(bytes: [1])))
    inbox.finish(RPCError(.aborted, "enough"), afterMessages: true)
    #expect(try await inbox.next()?.bytes == ByteBuffer(bytes: [1]))
    let error = await #expect(throws: RPCError.self) { try await inbox.next() }
    #expect(error?.code == .aborted)
  }

  @Test("A cancelled reader stops waiting")
  func cancelledReader() async throws {
    let inbox = MessageInbox { _ in }
    let reader = Task { () -> StatusCode? in
      do throws(RPCError) {
        _ = try await inbox.next()
        return nil
      } catch {
        return error.code
      }
    }
    await Task.yield()
    reader.cancel()
    #expect(await reader.value == .cancelled)
  }

  @Test("A writer waits when the transport is behind and goes on when it catches up")
  func backpressure() async throws {
    let outbox = MessageOutbox {}
    let big = ByteBuffer(repeating: 0, count: Limits.outboxHighWater)
    let finished = Atomic<Bool>(false)
    try await outbox.write(big)
    let writer = Task { () throws -> Void in
      try await outbox.write(ByteBuffer(bytes: [1]))
      finished.store(true, ordering: .sequentiallyConsistent)
    }
    for _ in 0..<20 { await Task.yield() }
    let early = finished.load(ordering: .sequentiallyConsistent)
    #expect(!early)
    // The writer may not have come to it yet.
    var frames = outbox.take()
    while frames.count < 2 {
      await Task.yield()
      frames += outbox.take()
    }
    outbox.sent(Limits.outboxHighWater + 1)
    try await writer.value
    let late = finished.load(ordering: .sequentiallyConsistent)
    #expect(late)
  }

  @Test("A writer whose task is cancelled fails alone: the others go on waiting")
  func cancelledWriter() async throws {
    let outbox = MessageOutbox {}
    try await outbox.write(ByteBuffer(repeating: 0, count: Limits.outboxHighWater))
    final class Counter: Sendable {
      let value = Atomic<Int>(0)
    }
    let finished = Counter()
    @Sendable func writer() -> Task<StatusCode?, Never> {
      Task {
        defer { finished.value.wrappingAdd(1, ordering: .sequentiallyConsistent) }
        do throws(RPCError) {
          try await outbox.write(ByteBuffer(bytes: [1]))
          return nil
        } catch {
          return error.code
        }
      }
    }
    let cancelled = writer()
    let others = [writer(), writer()]
    for _ in 0..<50 { await Task.yield() }
    cancelled.cancel()
    #expect(await cancelled.value == .cancelled)
    for _ in 0..<50 { await Task.yield() }
    let early = finished.value.load(ordering: .sequentiallyConsistent)
    #expect(early == 1)
    outbox.sent(Limits.outboxHighWater + 3)
    for other in others { #expect(await other.value == nil) }
  }

  @Test("A writer whose stream is gone fails with its status")
  func closedWriter() async throws {
    let outbox = MessageOutbox {}
    let big = ByteBuffer(repeating: 0, count: 2 * Limits.outboxHighWater)
    let writer = Task { () -> StatusCode? in
      do throws(RPCError) {
        try await outbox.write(big)
        return nil
      } catch {
        return error.code
      }
    }
    for _ in 0..<5 { await Task.yield() }
    outbox.close(RPCError(.cancelled, "gone"))
    #expect(await writer.value == .cancelled)
    let error = await #expect(throws: RPCError.self) { try await ResponseWriter<Blob>(outbox).write(Blob([1])) }
    #expect(error?.code == .cancelled)
  }

  @Test("The context keeps values apart by their key")
  func contextValues() {
    enum A: ServerContextKey { typealias Value = Int }
    enum B: ServerContextKey { typealias Value = Int }
    let context = ServerContext(method: RPCMethod(path: "/a", kind: .unary), metadata: ["x": "1"])
    context[A.self] = 1
    context[B.self] = 2
    #expect(context[A.self] == 1)
    #expect(context[B.self] == 2)
    context[A.self] = nil
    #expect(context[A.self] == nil)
    #expect(context.metadata["x"] == "1")
    #expect(context.firstValue("x") == "1")
  }
}
