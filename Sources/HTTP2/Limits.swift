internal import NIOCore

/// The bounds of one HTTP/2 session, each with the reason for its number. Passed in, so that a test may lower them.
package struct Limits: Sendable {
  /// Streams that the peer may have open at once (SETTINGS_MAX_CONCURRENT_STREAMS). What Envoy gives an edge; a
  /// client that wants more opens a second connection.
  package var concurrentStreams: UInt32 = 100

  /// Bytes of one header list, counted as RFC 9113 §6.5.2 does: name, value and 32 for each field. Twice what gRPC
  /// suggests, room for a large token. libnghttp2 only advertises it, so the callback counts (HPACK bombs).
  package var headerListBytes: UInt32 = 16 * 1024

  /// Bytes that a peer may send on one stream before we grant more. The protocol's default.
  package var streamWindow: UInt32 = 64 * 1024 - 1

  /// The same for the whole connection. Bounds what a connection may make us hold, whatever its streams do; where many share it
  /// all streams together do, so that nobody waits for the connection's window because of another's stream.
  package var connectionWindow: UInt32 = 1024 * 1024

  /// Bytes that have to be consumed before they are granted on the connection again, or half of its window if that is less:
  /// worth a frame.
  static let connectionGrant = 512 * 1024

  /// Bytes of output made before the socket has to take them. A few TLS records, so that one write is worth its
  /// system call, and no more than that for a peer that does not read.
  package var outputBytes: Int = 256 * 1024

  /// Whether the peer carries the calls of many, as a proxy does that names each one's client. What is wrong with one of them is
  /// not the connection's mistake then: no reset of ours ends it, and of the peer's resets the delegate counts those that it
  /// knows the client of.
  package var isShared = false

  /// Streams that a peer may reset before they were answered and while they are young, in a burst and a second (rapid
  /// reset, CVE-2023-44487): two full sets of streams, and one more for each call that was answered. Behind a proxy many
  /// clients share a connection, and some of them cancel.
  package var peerResets = Budget.Rate(burst: 200, perSecond: 20)

  /// Such resets beyond those, each of which slows the connection down, before it ends.
  package var excessResets = Budget.Rate(burst: 200, perSecond: 20)

  /// From when on a stream may be reset as its peer likes: with so many streams at once, and each as old, there are no
  /// more calls begun than an honest client may begin.
  static let oldStream = TimeAmount.seconds(1)

  /// Looks at a blocked stream without progress before it is reset: the first finds it, and one of the others may come
  /// early. See `HTTP2ServerSession.lookAtBlockedStreams`.
  package static let looksAtBlocked = 4

  /// Bytes of a stream that are progress: a frame of the usual size. A byte now and then is none.
  static let blockedProgress = 16 * 1024

  /// Streams that we may have to reset for the peer's mistakes (MadeYouReset, CVE-2025-8671), in a burst and a second.
  package var ownResets = Budget.Rate(burst: 100, perSecond: 10)

  /// Frames that do no work (SETTINGS, PING, PRIORITY, WINDOW_UPDATE, RST_STREAM, empty DATA), in a burst and a
  /// second. Frames that do work earn them back, so that acknowledging a long stream costs nothing.
  package var idleFrames = Budget.Rate(burst: 500, perSecond: 50)

  /// DATA frames of one stream that carry nothing, where many share the connection: such streams are reset.
  package var emptyFramesOfStream = 500

  /// Unacknowledged SETTINGS and PING answers that may wait for the socket before the session gives up.
  package var outboundAcknowledgements: Int = 200

  /// Entries of one SETTINGS frame. Twice what all the known parameters need.
  package var settingsEntries: Int = 32

  /// CONTINUATION frames of one header block: with them a block may be eight times what its list may be.
  package var continuations: Int = 8

  /// Bytes that a session works on before it asks whether it may go on, and what a frame counts beside its own: a dozen
  /// of short calls, so that asking costs nothing beside them.
  static let bytesBetweenLooks = 2 * 1024
  static let frameOverhead = 64

  /// Bytes of an answer that make a frame of it work, unless it is the answer's end: more than the frame costs beside
  /// them. A client that grants windows smaller than that has no use for them.
  static let earningBytes = 64

  /// Closed streams that the session remembers, to tell a late frame from a wrong one. A power of two.
  static let rememberedStreams = 64

  /// Output capacity that a finished stream may keep for the next one.
  static let keptStreamCapacity = 4 * 1024

  /// Memory that a session keeps for its next header block: a usual block of gRPC twice over.
  static let keptFieldCapacity = 2 * 1024

  /// Memory that a block gets that is larger: what the longest list takes, at once. Memory that grew step by step would leave
  /// holes between what is kept of many such blocks.
  static let largeFieldCapacity = 16 * 1024

  /// Header blocks that a session remembers by their bytes: a client alternates between few methods.
  static let rememberedBlocks = 4

  /// The largest of those: fields and a token, already compressed, and what they stand for, which is kept as well. Others are
  /// decoded each time.
  static let rememberedBlockBytes = 1024
  static let rememberedListBytes = 4096

  /// What those may stand for that a connection keeps which has nothing to do: the usual calls of one client.
  static let listBytesKeptWhenQuiet = 2048

  /// Bodies that the delegate is told of before their turn. Fetching a line of memory takes a fraction of the time of
  /// one request; two have to come one after the other.
  static let foreseenBodies = 4

  /// Stream objects that a session keeps for the next streams: as many as are open at once.
  static let keptStreams = 128

  /// Those that it keeps when there have been no streams for a while: for a client with a few calls at a time.
  static let keptWhenQuiet = 4

  package init() {}

  /// The connection's window where many share it: all of their streams' windows, with what is not granted again yet and as much
  /// for who comes next.
  var sharedWindow: Int {
    let (streams, isTooMany) = Int(concurrentStreams).multipliedReportingOverflow(
      by: max(Int(streamWindow), HTTP2ServerSession.defaultWindow))
    return isTooMany ? Int(Int32.max) : min(streams + 2 * Self.connectionGrant, Int(Int32.max))
  }
}
