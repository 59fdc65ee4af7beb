internal import NIOCore

/// Large buffers that the connections of an event loop read into, one after the other: who has worked on what it read gives its
/// buffer back, and who keeps less than half of it keeps a copy. So a read takes all that waits in its socket, a connection has no
/// large buffer while it is quiet, and none has to be made for a read.
///
///     take ──▶ the socket is read ──▶ worked on ──▶ give back
final class ReadBuffers: @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  private var spares: [ByteBuffer] = []
  /// Buffers that were taken and are not back; some never come back, since they were lost with their connections.
  private var taken = 0

  /// How many nobody has.
  var count: Int { spares.count }

  /// An empty buffer of `Limits.readBytes` that nobody else has.
  func take(_ allocator: ByteBufferAllocator) -> ByteBuffer {
    taken += 1
    while var buffer = spares.popLast() {
      // Writing to one that somebody still has would make a copy first.
      if buffer.modifyIfUniquelyOwned({ $0.clear() }) != nil { return buffer }
    }
    return allocator.buffer(capacity: Limits.readBytes)
  }

  /// Nobody is going to look at the buffer's bytes any more. One that is not from here, such as one of plain text by TLS, is
  /// dropped.
  func giveBack(_ buffer: ByteBuffer) {
    guard taken > 0, buffer.storageCapacity == Limits.readBytes else { return }
    taken -= 1
    guard spares.count < Limits.spareReadBuffers else { return }
    spares.append(buffer)
  }

  /// What is left of a buffer, to be kept: in a buffer of its own where that takes less than half. Costs the copy.
  func keep(_ rest: ByteBuffer) -> ByteBuffer {
    guard rest.readableBytes * 2 < rest.storageCapacity else { return rest }
    defer { giveBack(rest) }
    return rest.readableBytes == 0 ? ByteBuffer() : ByteBuffer(bytes: rest.readableBytesView)
  }
}

extension ServerConnection {
  var readBuffers: ReadBuffers { executor.turns.readBuffers }
}
