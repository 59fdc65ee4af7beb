/// Remembers how the latest streams of the peer ended, so that a late frame can be told from a wrong one without
/// keeping the streams themselves.
///
/// RFC 9113 §5.1: a frame after END_STREAM is a connection error STREAM_CLOSED, one that crossed our RST_STREAM is
/// ignored; §5.1.1: a new stream below an older number is a connection error PROTOCOL_ERROR.
struct ClosedStreams {
  enum Verdict: UInt32 {
    case open = 0
    /// Closed by END_STREAM on both sides, or by the peer's RST_STREAM.
    case closedByPeer = 1
    /// We reset it: whatever still comes was on its way.
    case resetByUs = 2
    /// A number below one already used, itself never used.
    case neverOpened = 3
    /// Too long ago.
    case forgotten = 4
  }

  /// Per slot: the stream's number, and its verdict in the lowest two bits.
  private var slots = [UInt64](repeating: 0, count: Limits.rememberedStreams)

  mutating func record(_ id: Int32, _ verdict: Verdict) {
    slots[slot(id)] = UInt64(UInt32(bitPattern: id)) << 2 | UInt64(verdict.rawValue)
  }

  mutating func close(_ id: Int32, _ verdict: Verdict) {
    guard slots[slot(id)] >> 2 == UInt64(UInt32(bitPattern: id)) else { return }
    record(id, verdict)
  }

  /// What became of a stream whose number is not above the highest one used.
  func verdict(_ id: Int32) -> Verdict {
    let entry = slots[slot(id)]
    let recorded = entry >> 2
    if recorded == UInt64(UInt32(bitPattern: id)) { return Verdict(rawValue: UInt32(entry & 3)) ?? .forgotten }
    return recorded < UInt64(UInt32(bitPattern: id)) ? .neverOpened : .forgotten
  }

  private func slot(_ id: Int32) -> Int { Int(id >> 1) & (Limits.rememberedStreams - 1) }
}
