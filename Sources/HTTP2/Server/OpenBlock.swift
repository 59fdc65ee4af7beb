/// A header block that is being decoded, in one frame or several.
struct OpenBlock {
  /// What becomes of it. Whatever that is, it is decoded: the compression table depends on it.
  enum Fate {
    case request
    case trailers(HTTP2Stream)
    /// One stream too many, before the peer can know better.
    case refused
    case ignored
  }

  let streamID: Int32
  let isEnd: Bool
  let fate: Fate
  var rules: RequestRules
  var block = HTTP2RequestBlock()
  /// Bytes of the list, as RFC 9113 §6.5.2 counts them; what is beyond the limit counts as one.
  private(set) var listBytes = 0
  var continuations = 0
  private var strings = LongStrings()

  /// What is held of it: its fields up to the limit, and what the decoder has of one that has not ended.
  var heldBytes: Int { max(listBytes, block.fields.reservedBytes) + strings.heldBytes }

  init(streamID: Int32, isEnd: Bool, fate: Fate, isMalformed: Bool) {
    self.streamID = streamID
    self.isEnd = isEnd
    self.fate = fate
    var isTrailers = false
    if case .trailers = fate { isTrailers = true }
    rules = RequestRules(isTrailers: isTrailers, isMalformed: isMalformed)
  }

  /// Decodes the next piece. False when the block is none: without it the tables are apart (RFC 9113 §4.3).
  ///
  /// - Parameter limit: bytes of the list, of which no more is kept.
  mutating func decode(
    _ piece: UnsafeRawBufferPointer, isLast: Bool, by decoder: inout HeaderDecoder, limit: Int
  ) -> Bool {
    // Every pointer is read before the call returns.
    if isLast, continuations == 0 { return unsafe decodeAll(piece, isLast: true, by: &decoder, limit: limit) }
    guard let kept = unsafe strings.without(piece, isLast: isLast) else { return false }
    if strings.hasTakenOut { listBytes = limit + 1 }
    return unsafe kept.withUnsafeBytes { unsafe decodeAll($0, isLast: isLast, by: &decoder, limit: limit) }
  }

  private mutating func decodeAll(
    _ piece: UnsafeRawBufferPointer, isLast: Bool, by decoder: inout HeaderDecoder, limit: Int
  ) -> Bool {
    // The fields are copied or checked before `decode` goes on.
    unsafe decoder.decode(piece, isLast: isLast) { name, value in
      // A byte of the block may stand for four thousand of the list: nothing is held of those, and they are nobody's load.
      listBytes = min(listBytes + name.count + value.count + 32, limit + 1)
      guard listBytes <= limit else { return }
      unsafe rules.check(name, value)
      unsafe block.fields.append(name, value)
    }
  }
}
