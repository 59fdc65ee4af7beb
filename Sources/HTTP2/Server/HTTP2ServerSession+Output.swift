package import NIOCore

/// What the session says.
extension HTTP2ServerSession {
  // MARK: Answers

  /// Answers a request within `session(_:answersDirectly:_:_:)`: the common head, `message` as one body, the common
  /// trailers. Takes the bytes that are in `message`.
  package func answer(_ stream: HTTP2Stream, _ message: inout ByteBuffer) {
    let count = message.readableBytes
    guard stream.id != 0, stream.isRemoteEnded, !stream.hasAnswered, failure == nil,
      count <= min(Self.frameBytes, stream.sendWindow, sendWindow), count > 0,
      output.readableBytes < limits.outputBytes,
      let head = encoder.remembered(.head), let trailers = encoder.remembered(.trailers)
    else {
      respond(stream, nil)
      write(stream) { $0.writeBuffer(&message) }
      return finishCommon(stream)
    }
    stream.hasAnswered = true
    stream.isFinished = true
    stream.isLocalEnded = true
    sendWindow -= count
    let id = stream.id
    let total = 3 * FrameHeader.byteCount + head.count + count + trailers.count
    // Room for eight bytes after each block, since they are stored as a word.
    unsafe output.writeWithUnsafeMutableBytes(minimumWritableBytes: total + 8) { target in
      guard var place = target.baseAddress else { return 0 }
      // `total` bytes and eight more are writable; each step stays within its share of them.
      let headHeader = FrameHeader(
        length: head.count, type: .headers, flags: FrameFlag.endHeaders, streamID: id)
      unsafe headHeader.write(to: place)
      unsafe (place + 9).storeBytes(of: head.bytes.littleEndian, as: UInt64.self)
      unsafe place += 9 + head.count
      unsafe FrameHeader(length: count, type: .data, streamID: id).write(to: place)
      unsafe message.readWithUnsafeReadableBytes { bytes in
        if let start = bytes.baseAddress { unsafe (place + 9).copyMemory(from: start, byteCount: count) }
        return count
      }
      unsafe place += 9 + count
      let end = FrameHeader(
        length: trailers.count, type: .headers, flags: FrameFlag.endHeaders | FrameFlag.endStream, streamID: id)
      unsafe end.write(to: place)
      unsafe (place + 9).storeBytes(of: trailers.bytes.littleEndian, as: UInt64.self)
      return total
    }
  }

  /// Whether requests with the block had better be turned away.
  package func isTooLate(_ block: HTTP2RequestBlock) -> Bool {
    guard let patience = block.patience else { return false }
    return lateness > patience || delegate?.session(self, isShut: block) == true
  }

  /// Answers a request within `session(_:answersDirectly:_:_:)` or `session(_:refuses:_:)` by the common refusal.
  package func turnAway(_ stream: HTTP2Stream) {
    guard stream.id != 0, !stream.hasAnswered, failure == nil else { return }
    stream.hasAnswered = true
    stream.isFinished = true
    stream.isLocalEnded = true
    let start = output.writerIndex
    let flags = FrameFlag.endHeaders | FrameFlag.endStream
    if encoder.appendRefusal(after: FrameHeader.byteCount, to: &output) {
      let length = output.writerIndex - start - FrameHeader.byteCount
      setHeader(FrameHeader(length: length, type: .headers, flags: flags, streamID: stream.id), at: start)
    } else {
      writeBlock(stream.id, common.refusal, as: .refusal, endStream: true)
    }
  }

  /// The same with an answer that is not the common one, of which the body waits for the peer's windows.
  package func turnAway(_ stream: HTTP2Stream, _ head: HTTP2FieldList, _ body: ByteBuffer) {
    respond(stream, head)
    // A copy: its memory is used again for the next one.
    write(stream) { $0.writeImmutableBuffer(body) }
    finish(stream)
  }

  /// Has `handler` answer a request within `session(_:answersDirectly:_:_:)`.
  package func adopt(_ stream: HTTP2Stream, _ handler: any HTTP2StreamHandler) {
    stream.block = nil
    stream.handler = handler
  }

  /// Sends the header block of the response; nil for the common one. With `endStream` that is all of it; otherwise the
  /// body follows with `write` and `finish`.
  package func respond(_ stream: HTTP2Stream, _ fields: HTTP2FieldList?, endStream: Bool = false) {
    guard stream.id != 0, !stream.hasAnswered, stream.resetCode == nil, failure == nil else { return }
    stream.hasAnswered = true
    writeBlock(stream.id, fields ?? common.head, as: fields == nil ? .head : nil, endStream: endStream)
    if endStream {
      stream.isFinished = true
      stream.isLocalEnded = true
    }
    if stream.isFinished || stream.pending.readableBytes > 0 { enqueue(stream) }
  }

  /// Lets `body` append to the bytes that the stream will send. What it appended is taken back when it throws.
  package func write<Failure: Error>(
    _ stream: HTTP2Stream,
    _ body: (inout ByteBuffer) throws(Failure) -> Void
  ) throws(Failure) {
    guard stream.id != 0, !stream.isFinished else { return }
    let mark = stream.pending.writerIndex
    let before = stream.pending.readableBytes
    do {
      try body(&stream.pending)
    } catch {
      stream.pending.moveWriterIndex(to: mark)
      throw error
    }
    queued += stream.pending.readableBytes - before
    enqueue(stream)
  }

  /// Appends bytes to what the stream will send, without copying when nothing waits.
  package func write(_ stream: HTTP2Stream, _ bytes: ByteBuffer) {
    guard stream.id != 0, !stream.isFinished else { return }
    queued += bytes.readableBytes
    if stream.pending.readableBytes == 0 {
      stream.pending = bytes
    } else {
      stream.pending.writeImmutableBuffer(bytes)
    }
    enqueue(stream)
  }

  /// Ends our side of the stream after the bytes that wait, with trailers if there are any.
  package func finish(_ stream: HTTP2Stream, trailers: HTTP2FieldList? = nil) {
    guard stream.id != 0, !stream.isFinished else { return }
    if let trailers, !trailers.isEmpty {
      stream.trailers = trailers
      stream.hasTrailers = true
    }
    stream.isFinished = true
    enqueue(stream)
  }

  /// Ends our side of the stream after the bytes that wait, with the common trailers.
  package func finishCommon(_ stream: HTTP2Stream) {
    guard stream.id != 0, !stream.isFinished else { return }
    stream.hasCommonTrailers = !common.trailers.isEmpty
    stream.isFinished = true
    enqueue(stream)
  }

  // MARK: The queue

  /// Appends to `output` what the streams have to say, up to the limit on waiting output and the peer's windows.
  package func produce() {
    while failure == nil, readyHead < ready.count, output.readableBytes < limits.outputBytes {
      let stream = ready[readyHead]
      readyHead += 1
      stream.isQueued = false
      if stream.id != 0 { send(stream) }
    }
    guard readyHead == ready.count else { return }
    ready.removeAll(keepingCapacity: ready.capacity <= Limits.keptStreams)
    readyHead = 0
  }

  /// Whether `produce` has more to put into `output`.
  package var wantsToWrite: Bool { failure == nil && readyHead < ready.count }

  /// One turn of a stream: at most a frame of its body.
  private func send(_ stream: HTTP2Stream) {
    if let code = stream.resetCode {
      let isShed = stream.isShed
      // A mistake of one of many counts as if it had been cancelled. What we refuse is none.
      let isMistake = code == .protocolError || code == .flowControlError || code == .enhanceYourCalm && !isShed
      if limits.isShared, isMistake { _ = delegate?.session(self, countsReset: stream) }
      writeReset(stream.id, code)
      close(stream, code, .resetByUs)
      return isShed ? () : countReset(code)
    }
    if stream.isLocalEnded { return endLocally(stream) }
    guard stream.hasAnswered else { return }
    let available = stream.pending.readableBytes
    if available > 0 {
      let count = min(available, Self.frameBytes, stream.sendWindow, sendWindow)
      guard count > 0 else {
        if stream.sendWindow > 0, !stream.isBlocked {
          stream.isBlocked = true
          blocked.append(stream)
        }
        return
      }
      let isLast = stream.isFinished && count == available && !stream.hasTrailers && !stream.hasCommonTrailers
      writeData(stream, count, isLast: isLast)
      guard stream.id != 0 else { return }
      if isLast { return endLocally(stream) }
      return enqueue(stream)
    }
    guard stream.isFinished else { return }
    if stream.hasTrailers {
      writeBlock(stream.id, stream.trailers, endStream: true)
    } else if stream.hasCommonTrailers {
      writeBlock(stream.id, common.trailers, as: .trailers, endStream: true)
    } else {
      writeData(stream, 0, isLast: true)
    }
    endLocally(stream)
  }

  private func endLocally(_ stream: HTTP2Stream) {
    stream.isLocalEnded = true
    peerResets.earn()
    guard !stream.isRemoteEnded else { return close(stream, .noError, .closedByPeer) }
    // The answer is complete and the rest of the request is of no use (RFC 9113 §8.1).
    writeReset(stream.id, .noError)
    close(stream, .noError, .resetByUs)
  }

  /// Resets a request that never became a stream of ours.
  func refuse(_ id: Int32, _ code: HTTP2ErrorCode) {
    closedStreams.record(id, .resetByUs)
    writeReset(id, code)
    countReset(code)
  }

  private func countReset(_ code: HTTP2ErrorCode) {
    guard code != .noError, !limits.isShared, !ownResets.spend(now: now) else { return }
    terminate(.enhanceYourCalm, debug: "too_many_resets")
  }

  // MARK: Frames

  private func writeData(_ stream: HTTP2Stream, _ count: Int, isLast: Bool) {
    writeHeader(
      FrameHeader(length: count, type: .data, flags: isLast ? FrameFlag.endStream : 0, streamID: stream.id))
    if count > 0 {
      sendWindow -= count
      stream.sendWindow -= count
      stream.sent += count
      sent += count
      queued -= count
      // Read within the closure only; `count` is at most what is readable.
      unsafe stream.pending.readWithUnsafeReadableBytes { bytes in
        unsafe output.writeBytes(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        return count
      }
      if stream.pending.readableBytes == 0 { stream.forgetPending() }
      // Acknowledging a long answer costs the peer nothing, unless it has it sent by the byte (CVE-2019-9511).
      if count >= Limits.earningBytes || stream.pending.readableBytes == 0 { idleFrames.earn() }
    }
    stream.handler?.stream(stream, wrote: count)
  }

  private func writeBlock(
    _ id: Int32,
    _ fields: HTTP2FieldList,
    as common: HeaderEncoder.CommonBlock? = nil,
    endStream: Bool
  ) {
    let start = output.writerIndex
    let end = endStream ? FrameFlag.endStream : 0
    writeHeader(FrameHeader(length: 0, type: .headers, flags: end | FrameFlag.endHeaders, streamID: id))
    if let common, let known = encoder.remembered(common) {
      // The first byte of the block is the lowest.
      for place in 0..<known.count {
        output.writeInteger(UInt8(truncatingIfNeeded: known.bytes >> (8 * UInt64(place))))
      }
    } else if !encoder.encode(fields, as: common, into: &output) {
      output.moveWriterIndex(to: start)
      return terminate(.internalError)
    }
    let length = output.writerIndex - start - FrameHeader.byteCount
    guard length > Self.frameBytes else {
      return setHeader(
        FrameHeader(length: length, type: .headers, flags: end | FrameFlag.endHeaders, streamID: id), at: start)
    }
    // RFC 9113 §4.3: what one frame does not take goes on in CONTINUATION.
    let block = output.getBytes(at: start + FrameHeader.byteCount, length: length) ?? []
    output.moveWriterIndex(to: start)
    for piece in stride(from: 0, to: length, by: Self.frameBytes) {
      let bytes = block[piece..<min(piece + Self.frameBytes, length)]
      let isLast = piece + bytes.count == length
      writeHeader(
        FrameHeader(
          length: bytes.count,
          type: piece == 0 ? .headers : .continuation,
          flags: (piece == 0 ? end : 0) | (isLast ? FrameFlag.endHeaders : 0),
          streamID: id
        ))
      output.writeBytes(bytes)
    }
  }

  private func writeReset(_ id: Int32, _ code: HTTP2ErrorCode) {
    writeHeader(FrameHeader(length: 4, type: .reset, streamID: id))
    output.writeInteger(code.rawValue)
  }

  func writeWindowUpdate(_ id: Int32, _ increment: Int) {
    writeHeader(FrameHeader(length: 4, type: .windowUpdate, streamID: id))
    output.writeInteger(UInt32(increment))
  }

  func writePing(_ payload: UInt64, isAnswer: Bool) {
    writeHeader(
      FrameHeader(length: 8, type: .ping, flags: isAnswer ? FrameFlag.acknowledgement : 0, streamID: 0))
    output.writeInteger(payload)
  }

  func writeGoAway(_ last: Int32, _ code: HTTP2ErrorCode, debug: StaticString = "") {
    writeHeader(FrameHeader(length: 8 + debug.utf8CodeUnitCount, type: .goAway, streamID: 0))
    output.writeInteger(last)
    output.writeInteger(code.rawValue)
    output.writeStaticString(debug)
  }

  /// RFC 9113 §6.5.2, and RFC 9218 §2.1 for the last.
  func writeSettings() {
    let entries: [(UInt16, UInt32)] = [
      (3, limits.concurrentStreams), (4, limits.streamWindow), (6, limits.headerListBytes), (9, 1),
    ]
    writeHeader(FrameHeader(length: 6 * entries.count, type: .settings, streamID: 0))
    for (id, value) in entries {
      output.writeInteger(id)
      output.writeInteger(value)
    }
  }

  func writeSettingsAcknowledgement() {
    writeHeader(FrameHeader(length: 0, type: .settings, flags: FrameFlag.acknowledgement, streamID: 0))
  }

  private func writeHeader(_ header: FrameHeader) {
    // Nine bytes are writable, and all of them are written.
    unsafe output.writeWithUnsafeMutableBytes(minimumWritableBytes: FrameHeader.byteCount) { target in
      guard let start = target.baseAddress else { return 0 }
      unsafe header.write(to: start)
      return FrameHeader.byteCount
    }
  }

  private func setHeader(_ header: FrameHeader, at index: Int) {
    output.setInteger(UInt32(truncatingIfNeeded: header.length) << 8 | UInt32(header.type), at: index)
    output.setInteger(header.flags, at: index + 4)
    output.setInteger(header.streamID, at: index + 5)
  }
}
