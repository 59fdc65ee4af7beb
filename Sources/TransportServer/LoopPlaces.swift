internal import Callers
internal import NIOCore
internal import Synchronization

/// Where connections are served: those of sources that have few on the loops that everybody uses, and those of a crowd, a source
/// that has more than its part there, on others.
///
/// So all that thousands of connections bring at once, such as their end, keeps the crowds' loops, but for the few that each
/// source has elsewhere, and the kernel shares the cores between the threads of both. A crowd is nobody bad: while nothing else is
/// to be done its loops have all cores.
///
/// The part of a source is what is left of the places, so that one alone comes to half of them (``FairShare``), and never less
/// than some. Who has come to it stays a crowd for a while after it has fewer: thousands of connections that end together come
/// again together. A proxy that is trusted is never one, since its connections are anybody's.
///
/// Each operation costs a look or two into a hash table.
final class LoopPlaces: Sendable {
  private struct Row {
    /// Connections on everybody's loops, and all.
    var ordinary = 0
    var all = 0
    var isCrowd = false
  }

  private struct State {
    /// Sources that have connections, or were crowds not long ago.
    var rows: [NetworkAddress?: Row] = [:]
    /// Crowds, and when it is looked whether they still are, the next one first.
    var crowds = CircularBuffer<(source: NetworkAddress?, look: NIODeadline)>()
    /// Connections of all sources on everybody's loops, and all.
    var ordinary = 0
    var all = 0
    /// Whose turn it is.
    var next = 0
    var nextOfCrowds = 0
  }

  /// That a connection is there, until the last reference to it has gone.
  final class Place: Sendable {
    private let places: LoopPlaces
    private let source: NetworkAddress?
    private let isOrdinary: Bool

    fileprivate init(_ places: LoopPlaces, _ source: NetworkAddress?, isOrdinary: Bool) {
      (self.places, self.source, self.isOrdinary) = (places, source, isOrdinary)
    }

    deinit { places.giveBack(of: source, isOrdinary) }
  }

  private let loops: [any EventLoop]
  private let crowdLoops: [any EventLoop]
  private let capacity: Int
  private let state = Mutex(State())

  /// - Parameter crowdLoops: none where all share the others.
  init(_ loops: [any EventLoop], crowdLoops: [any EventLoop], placesOfLoop: Int = Limits.placesOfLoop) {
    self.loops = loops
    self.crowdLoops = crowdLoops
    capacity = loops.count * placesOfLoop
  }

  /// A loop for a new connection, by turns, and what has to be kept while the connection is open; nil where nobody counts.
  ///
  /// - Parameter isShared: it is a proxy's, and so anybody's.
  func take(for source: NetworkAddress?, isShared: Bool, at now: NIODeadline = .now()) -> (any EventLoop, Place?) {
    let (loop, isOrdinary) = state.withLock { state -> (any EventLoop, Bool?) in
      guard !isShared, !crowdLoops.isEmpty else { return (Self.next(of: loops, &state.next), nil) }
      look(&state, at: now)
      var row = state.rows[source] ?? Row()
      if !row.isCrowd, row.ordinary >= max(capacity - state.ordinary, Limits.placesOfSource) {
        row.isCrowd = true
        state.crowds.append((source, now + Limits.crowdTime))
      }
      row.all += 1
      state.all += 1
      if !row.isCrowd {
        row.ordinary += 1
        state.ordinary += 1
      }
      state.rows[source] = row
      if row.isCrowd { return (Self.next(of: crowdLoops, &state.nextOfCrowds), false) }
      return (Self.next(of: loops, &state.next), true)
    }
    return (loop, isOrdinary.map { Place(self, source, isOrdinary: $0) })
  }

  private static func next(of loops: [any EventLoop], _ turn: inout Int) -> any EventLoop {
    turn = (turn + 1) % loops.count
    return loops[turn]
  }

  /// Whoever has no more connections by now than its part would be, had all theirs on everybody's loops, is no crowd any more.
  private func look(_ state: inout State, at now: NIODeadline) {
    for _ in 0..<Limits.crowdsAtOnce {
      guard let first = state.crowds.first, first.look <= now else { return }
      state.crowds.removeFirst()
      guard let row = state.rows[first.source] else { continue }
      if row.all >= max(capacity - state.all, Limits.placesOfSource) {
        state.crowds.append((first.source, now + Limits.crowdTime))
      } else {
        state.rows[first.source]?.isCrowd = false
        if row.all == 0 { state.rows[first.source] = nil }
      }
    }
  }

  private func giveBack(of source: NetworkAddress?, _ isOrdinary: Bool) {
    state.withLock { state in
      guard var row = state.rows[source] else { return }
      row.all -= 1
      state.all -= 1
      if isOrdinary {
        row.ordinary -= 1
        state.ordinary -= 1
      }
      state.rows[source] = row.all > 0 || row.isCrowd ? row : nil
    }
  }

  /// Sources of which something is known.
  var sources: Int { state.withLock { $0.rows.count } }
}
