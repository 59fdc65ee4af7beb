/// What each frame does.
extension HTTP2ServerSession {
  // MARK: HEADERS

  func receivedHeaders(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    let id = header.streamID
    guard id & 1 == 1 else { return terminate(.protocolError) }
    // Pointers here are read before the call returns.
    guard let piece = unsafe blockPiece(header, payload) else { return }
    let isEnd = header.has(FrameFlag.endStream)
    guard let fate = fate(id, isEnd) else { return }
    if case .ignored = fate { spendIdle() } else { idleFrames.earn() }
    guard failure == nil else { return }
    let isWhole = header.has(FrameFlag.endHeaders)
    let isOwnParent = unsafe dependsOnItself(header, payload)
    if isWhole, !isOwnParent, case .request = fate, let block = unsafe blocks.find(piece) {
      return begin(id, block, isEnd)
    }
    var open = OpenBlock(streamID: id, isEnd: isEnd, fate: fate, isMalformed: isOwnParent)
    swap(&open.block.fields, &gathering)
    // RFC 9113 §4.3: without the whole block the tables are apart.
    guard unsafe decode(piece, isLast: isWhole, &open) else { return terminate(.compressionError) }
    guard isWhole else {
      openBlock = open
      return
    }
    if unsafe !HeaderDecoder.leavesTableAlone(piece) {
      blocks.removeAll()
      unsafe complete(open, wire: nil)
    } else {
      unsafe complete(open, wire: piece)
    }
  }

  func receivedContinuation(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    guard var open = openBlock else { return terminate(.protocolError) }
    openBlock = nil
    open.continuations += 1
    guard open.continuations <= limits.continuations else {
      return terminate(.enhanceYourCalm, debug: "too_many_continuations")
    }
    let isLast = header.has(FrameFlag.endHeaders)
    // Read before the call returns.
    guard unsafe decode(payload, isLast: isLast, &open) else { return terminate(.compressionError) }
    guard isLast else {
      openBlock = open
      return
    }
    blocks.removeAll()
    unsafe complete(open, wire: nil)
  }

  /// The block's part of a HEADERS frame. Nil when the frame ended the session.
  private func blockPiece(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    var start = 0
    var padding = 0
    if header.has(FrameFlag.padded) {
      guard payload.count > 0 else {
        terminate(.frameSizeError)
        return nil
      }
      // In bounds by the line above.
      padding = unsafe Int(payload[0])
      start = 1
    }
    // RFC 9113 §5.3.2: the priority is passed over.
    if header.has(FrameFlag.priority) { start += 5 }
    guard payload.count >= start else {
      terminate(.frameSizeError)
      return nil
    }
    guard payload.count - start >= padding else {
      terminate(.protocolError)
      return nil
    }
    // In bounds by the guards.
    return unsafe UnsafeRawBufferPointer(rebasing: payload[start..<payload.count - padding])
  }

  /// RFC 7540 §5.3.1: whether a sound HEADERS frame makes its stream its own parent, which is the stream's error.
  /// RFC 9113 no longer orders streams, but a peer that sends this has lost its way.
  private func dependsOnItself(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) -> Bool {
    guard header.has(FrameFlag.priority) else { return false }
    // `blockPiece` has made sure of the bytes.
    return unsafe parent(payload, at: header.has(FrameFlag.padded) ? 1 : 0) == header.streamID
  }

  /// The stream that a priority names. Its first bit says something else.
  private func parent(_ payload: UnsafeRawBufferPointer, at index: Int) -> Int32 {
    // The caller has four bytes there.
    unsafe Int32(bitPattern: payload.bigEndian(at: index) & 0x7fff_ffff)
  }

  /// What a block on this stream is. Nil when it ended the session.
  private func fate(_ id: Int32, _ isEnd: Bool) -> OpenBlock.Fate? {
    if id > highestPeerStream {
      guard accepts(id) else { return .ignored }
      highestPeerStream = id
      if openStreams >= Int(limits.concurrentStreams) {
        // Streams that this read has ended are open only until their last frames are made.
        produce()
        guard failure == nil else { return nil }
      }
      guard openStreams < Int(limits.concurrentStreams) else {
        // RFC 9113 §5.1.2. Before it knows our limit a peer cannot keep it.
        guard !isSettingsAcknowledged else {
          terminate(.protocolError)
          return nil
        }
        return .refused
      }
      return .request
    }
    if let stream = table[id] {
      guard !stream.isRemoteEnded else {
        terminate(.streamClosed)
        return nil
      }
      return stream.resetCode == nil ? .trailers(stream) : .ignored
    }
    switch closedStreams.verdict(id) {
    case .closedByPeer: terminate(.streamClosed)
    case .neverOpened: terminate(.protocolError)
    case .open, .resetByUs, .forgotten: return .ignored
    }
    return nil
  }

  private func decode(_ piece: UnsafeRawBufferPointer, isLast: Bool, _ open: inout OpenBlock) -> Bool {
    let before = open.listBytes
    defer { worked += open.listBytes - before }
    // Read before the call returns.
    return unsafe open.decode(piece, isLast: isLast, by: &decoder, limit: Int(limits.headerListBytes))
  }

  /// - Parameter wire: the bytes of the block, if they stand for the same fields from now on.
  private func complete(_ open: OpenBlock, wire: UnsafeRawBufferPointer?) {
    let id = open.streamID
    switch open.fate {
    case .ignored: closedStreams.record(id, .resetByUs)
    case .refused: refuse(id, .refusedStream)
    case .trailers(let stream):
      guard stream.id == id, stream.resetCode == nil else { return }
      guard open.listBytes <= Int(limits.headerListBytes) else { return reset(stream, .enhanceYourCalm) }
      guard open.isEnd, open.rules.isWellFormed(open.block.fields) else { return reset(stream, .protocolError) }
      receivedTrailers(stream)
    case .request:
      // RFC 9113 §10.5.1. gRPC's clients take the code for RESOURCE_EXHAUSTED.
      guard open.listBytes <= Int(limits.headerListBytes) else { return refuse(id, .enhanceYourCalm) }
      guard open.rules.isWellFormed(open.block.fields) else { return refuse(id, .protocolError) }
      open.block.contentLength = open.rules.contentLength
      open.block.listBytes = open.listBytes
      delegate?.session(self, received: open.block)
      open.block.giveBack(to: &gathering)
      // Copied before the call returns.
      if let wire = unsafe wire, open.listBytes <= Limits.rememberedListBytes { unsafe blocks.insert(wire, open.block) }
      begin(id, open.block, open.isEnd)
    }
  }

  private func begin(_ id: Int32, _ block: HTTP2RequestBlock, _ isEnd: Bool) {
    let stream = openStream(id, block)
    stream.block = block
    if !isEnd, block.allowsDirectAnswer || isTooLate(block) {
      return beginWait(stream, block)
    }
    decide(stream)
    if isEnd { receivedEnd(stream) }
  }

  private func receivedTrailers(_ stream: HTTP2Stream) {
    if stream.isUndecided { decideAtLast(stream) }
    stream.handler?.stream(stream, completedFields: .trailers)
    receivedEnd(stream)
  }

  private func receivedEnd(_ stream: HTTP2Stream) {
    guard stream.resetCode == nil else { return }
    // RFC 9113 §8.1.1.
    if let expected = stream.contentLength, expected != stream.received { return reset(stream, .protocolError) }
    stream.isRemoteEnded = true
    if stream.handler != nil { isLookDue = true }
    stream.handler?.streamReceivedEnd(stream)
  }

  // MARK: DATA

  func receivedData(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    let id = header.streamID
    guard id & 1 == 1 else { return terminate(.protocolError) }
    let isEnd = header.has(FrameFlag.endStream)
    var start = 0
    var end = payload.count
    if header.has(FrameFlag.padded) {
      guard payload.count > 0 else { return terminate(.frameSizeError) }
      // In bounds by the line above.
      let padding = unsafe Int(payload[0])
      start = 1
      guard payload.count - 1 >= padding else { return terminate(.protocolError) }
      end -= padding
    }
    guard takeFromConnection(payload.count) else { return terminate(.flowControlError) }
    guard let stream = table[id] else { return receivedLateData(id, payload.count) }
    guard !stream.isRemoteEnded else { return terminate(.streamClosed) }
    let count = end - start
    // Padding is no work, and neither is what nobody reads any more.
    if stream.resetCode == nil, count > 0 || isEnd { receivedWork(stream) } else { receivedNothing(stream) }
    guard failure == nil else { return }
    guard stream.resetCode == nil else { return grantConnection(payload.count) }
    stream.received += count
    stream.outstanding += payload.count
    let isWithinWindow = stream.outstanding <= streamWindow
    if !isWithinWindow || !hasRoom(stream, isEnd: isEnd) {
      grantConnection(payload.count)
      return reset(stream, isWithinWindow ? .protocolError : .flowControlError)
    }
    // In bounds by the guards; read before the calls return.
    let data = unsafe UnsafeRawBufferPointer(rebasing: payload[start..<end])
    if stream.isUndecided {
      endWait(stream)
      if isEnd ? unsafe answersDirectly(stream, data) : isRefused(stream) { return grantConnection(payload.count) }
      decide(stream)
    } else if stream.handler == nil {
      // It was turned away, and nobody reads it. Its window is not granted again.
      grantConnection(payload.count)
      return isEnd ? receivedEnd(stream) : ()
    }
    if payload.count > count {
      // RFC 9113 §6.1: padding counts against the windows, and nobody reads it.
      grantConnection(payload.count - count)
      if !isEnd { grantStream(stream, payload.count - count) }
    }
    stream.unconsumed += count
    if stream.handler != nil { isLookDue = true }
    if count > 0 { unsafe stream.handler?.stream(stream, receivedData: data) }
    if isEnd { receivedEnd(stream) }
  }

  /// RFC 9113 §8.1.1: the body is as long as `content-length` says.
  private func hasRoom(_ stream: HTTP2Stream, isEnd: Bool) -> Bool {
    guard let expected = stream.contentLength else { return true }
    return isEnd ? stream.received == expected : stream.received <= expected
  }

  private func answersDirectly(_ stream: HTTP2Stream, _ body: UnsafeRawBufferPointer) -> Bool {
    guard let block = stream.block, let delegate else { return false }
    stream.isRemoteEnded = true
    // Read before the call returns.
    guard unsafe delegate.session(self, answersDirectly: stream, block, body) else {
      stream.isRemoteEnded = false
      return false
    }
    if lookAhead.state == .untried { lookAhead.state = .on }
    // Its answer may wait for long, and nobody reads the fields any more.
    stream.block = nil
    // What the windows or the output had no room for is in the queue.
    if stream.isLocalEnded, stream.handler == nil, !stream.isQueued {
      peerResets.earn()
      close(stream, .noError, .closedByPeer)
    }
    return true
  }

  /// Whether a request that came too late is answered although its end is still to come.
  private func isRefused(_ stream: HTTP2Stream) -> Bool {
    guard let block = stream.block, isTooLate(block), let delegate else { return false }
    guard delegate.session(self, refuses: stream, block) else { return false }
    stream.block = nil
    enqueue(stream)
    return true
  }

  /// DATA on a stream that is not open.
  private func receivedLateData(_ id: Int32, _ count: Int) {
    guard id <= highestPeerStream else {
      return accepts(id) ? terminate(.protocolError) : grantConnection(count)
    }
    switch closedStreams.verdict(id) {
    case .closedByPeer: terminate(.streamClosed)
    case .neverOpened: terminate(.protocolError)
    case .open, .resetByUs, .forgotten:
      // Where many share the connection it is one client's, and what it costs is part of the connection's turn.
      if !limits.isShared { spendIdle() }
      grantConnection(count)
    }
  }

  // MARK: The other frames of a stream

  func receivedReset(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    spendIdle()
    guard failure == nil else { return }
    guard payload.count == 4 else { return terminate(.frameSizeError) }
    guard isUsed(header.streamID) else { return terminate(.protocolError) }
    guard let stream = table[header.streamID] else { return }
    guard mayReset(stream) else { return terminate(.enhanceYourCalm, debug: "too_many_resets") }
    // Four bytes by the guard.
    close(stream, HTTP2ErrorCode(rawValue: unsafe payload.bigEndian(at: 0)), .closedByPeer)
  }

  func receivedPriority(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    guard header.streamID != 0 else { return terminate(.protocolError) }
    guard payload.count == 5 else { return terminate(.frameSizeError) }
    // RFC 7540 §5.3.1, as the connection's error: the stream may be idle, and an idle stream cannot be reset.
    guard unsafe parent(payload, at: 0) != header.streamID else { return terminate(.protocolError) }
    spendIdle()
  }

  func receivedWindowUpdate(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    spendIdle()
    guard failure == nil else { return }
    guard payload.count == 4 else { return terminate(.frameSizeError) }
    // Four bytes by the guard.
    let increment = unsafe Int(payload.bigEndian(at: 0) & 0x7fff_ffff)
    // RFC 9113 §6.9: on a stream it could be the stream's error. Nobody sends it by mistake.
    guard increment > 0 else { return terminate(.protocolError) }
    guard header.streamID != 0 else {
      sendWindow += increment
      guard sendWindow <= Int(Int32.max) else { return terminate(.flowControlError) }
      for stream in blocked {
        stream.isBlocked = false
        enqueue(stream)
      }
      blocked.removeAll(keepingCapacity: true)
      return
    }
    guard isUsed(header.streamID) else { return terminate(.protocolError) }
    guard let stream = table[header.streamID], stream.resetCode == nil else { return }
    stream.sendWindow += increment
    guard stream.sendWindow <= Int(Int32.max) else { return reset(stream, .flowControlError) }
    if stream.pending.readableBytes > 0 { enqueue(stream) }
  }

  /// RFC 9113 §5.1: whether a stream of this number has been open.
  private func isUsed(_ id: Int32) -> Bool {
    id & 1 == 1 && (id <= highestPeerStream || !accepts(id))
  }

  // MARK: The frames of the connection

  func receivedSettings(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    spendIdle()
    guard failure == nil else { return }
    guard header.streamID == 0 else { return terminate(.protocolError) }
    if header.has(FrameFlag.acknowledgement) {
      guard payload.count == 0 else { return terminate(.frameSizeError) }
      // We send SETTINGS once.
      guard !isSettingsAcknowledged else { return terminate(.protocolError) }
      isSettingsAcknowledged = true
      delegate?.session(self, receivedSettings: true)
      return
    }
    guard payload.count % 6 == 0 else { return terminate(.frameSizeError) }
    guard payload.count / 6 <= limits.settingsEntries else {
      return terminate(.enhanceYourCalm, debug: "too_many_settings")
    }
    for index in stride(from: 0, to: payload.count, by: 6) {
      // Six bytes are there: the count is a multiple of six.
      let id = unsafe UInt16(payload[index]) << 8 | UInt16(payload[index + 1])
      if let code = unsafe apply(id, payload.bigEndian(at: index + 2)) { return terminate(code) }
    }
    writeSettingsAcknowledgement()
    delegate?.session(self, receivedSettings: false)
  }

  /// Source: RFC 9113 §6.5.2. Answers what is wrong with the value.
  private func apply(_ id: UInt16, _ value: UInt32) -> HTTP2ErrorCode? {
    switch id {
    case 1:
      return encoder.limitTable(value) ? nil : .internalError
    case 2, 8, 9:
      // ENABLE_PUSH, ENABLE_CONNECT_PROTOCOL, NO_RFC7540_PRIORITIES.
      return value <= 1 ? nil : .protocolError
    case 4:
      guard value <= UInt32(Int32.max) else { return .flowControlError }
      let change = Int(value) - peerInitialWindow
      peerInitialWindow = Int(value)
      guard change != 0 else { return nil }
      for stream in table.all {
        stream.sendWindow += change
        // §6.9.2.
        guard stream.sendWindow <= Int(Int32.max) else { return .flowControlError }
        if change > 0, stream.pending.readableBytes > 0 { enqueue(stream) }
      }
      return nil
    case 5:
      // We never send a frame larger than every peer takes.
      return (16_384...16_777_215).contains(value) ? nil : .protocolError
    default:
      return nil
    }
  }

  func receivedPing(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    spendIdle()
    guard failure == nil else { return }
    guard header.streamID == 0 else { return terminate(.protocolError) }
    guard payload.count == 8 else { return terminate(.frameSizeError) }
    // Eight bytes by the guard.
    let value = unsafe UInt64(payload.bigEndian(at: 0)) << 32 | UInt64(payload.bigEndian(at: 4))
    let isAnswer = header.has(FrameFlag.acknowledgement)
    if !isAnswer { writePing(value, isAnswer: true) }
    delegate?.session(self, receivedPing: value, acknowledged: isAnswer)
  }

  func receivedGoAway(_ header: FrameHeader, _ payload: UnsafeRawBufferPointer) {
    spendIdle()
    guard failure == nil else { return }
    guard header.streamID == 0 else { return terminate(.protocolError) }
    guard payload.count >= 8 else { return terminate(.frameSizeError) }
    isPeerDraining = true
  }
}

extension UnsafeRawBufferPointer {
  /// The four bytes at `index`, which the caller knows to be there, as the number that they are on the wire.
  fileprivate func bigEndian(at index: Int) -> UInt32 {
    // Bounds are checked all the same.
    unsafe UInt32(self[index]) << 24 | UInt32(self[index + 1]) << 16 | UInt32(self[index + 2]) << 8
      | UInt32(self[index + 3])
  }
}
