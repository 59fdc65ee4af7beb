internal import Callers
internal import NIOCore
internal import Synchronization

/// The connections of a server by their sources. When all places are taken, who has the most makes room for who has
/// less: its newest connection goes, since those that were there before rarely are what fills the server.
///
/// Each operation costs a few looks into hash tables.
final class ConnectionTable: Sendable {
  enum Admission {
    case admitted
    /// In place of this one, which is out of the table already.
    case inPlaceOf(any Channel)
    case refused
  }

  /// The connections of one source, the newest last, with gaps where one has gone.
  private struct Row {
    var channels: [(any Channel)?] = []
    var gaps = 0
    /// Below this index are those that were not asked yet in this round.
    var unasked = 0

    /// Some to ask, from the newest to the oldest, and then from the newest again.
    mutating func nextToAsk(_ count: Int) -> [any Channel] {
      if unasked == 0 || unasked > channels.count { unasked = channels.count }
      let asked = channels[max(0, unasked - count)..<unasked]
      unasked = asked.startIndex
      return asked.reversed().compactMap(\.self)
    }
  }

  private struct Place {
    let source: NetworkAddress?
    /// In the source's row.
    var index: Int
  }

  private struct State {
    var share: FairShare<NetworkAddress?>
    var rows: [NetworkAddress?: Row] = [:]
    var places: [ObjectIdentifier: Place] = [:]
    /// Those of proxies that name the client of each request.
    var shared: [ObjectIdentifier: any Channel] = [:]
  }

  private let state: Mutex<State>

  init(capacity: Int) {
    state = Mutex(State(share: FairShare(capacity: capacity)))
  }

  func admit(_ channel: any Channel, from address: NetworkAddress?) -> Admission {
    let source = address?.source
    return state.withLock { Self.admit(channel, source, &$0) }
  }

  /// The connection turned out to be another source's.
  func move(_ channel: any Channel, to address: NetworkAddress?) -> Admission {
    let source = address?.source
    return state.withLock { state in
      // One that was made to go has no place to move.
      guard Self.remove(channel, &state) else { return .refused }
      return Self.admit(channel, source, &state)
    }
  }

  /// Whether the source has far fewer connections than another.
  func hasLittle(_ source: NetworkAddress?) -> Bool {
    state.withLock { QueueShare.isLittle($0.share.held(by: source), beside: $0.share.largest?.held ?? 0) }
  }

  func remove(_ channel: any Channel) {
    state.withLock { _ = Self.remove(channel, &$0) }
  }

  /// The connection may bring requests of any source.
  func share(_ channel: any Channel) {
    state.withLock { state in
      guard state.places[ObjectIdentifier(channel)] != nil else { return }
      state.shared[ObjectIdentifier(channel)] = channel
    }
  }

  /// Asks connections that may have something of what sources hold too much, the newest first; each time others, until all
  /// of a source were asked, so that nobody hides those that hold it behind those that hold nothing.
  func ask(_ shed: ServerShed) {
    let sources = shed.accounts.map(\.source)
    let channels = state.withLock { state in
      var asked: [any Channel] = []
      for (index, source) in sources.enumerated() {
        let room = (Limits.shedConnections - asked.count) / (sources.count - index)
        asked += state.rows[source]?.nextToAsk(max(room, 1)) ?? []
      }
      return asked + state.shared.values.shuffled().prefix(Limits.shedConnections)
    }
    for channel in channels {
      // Never at once: whoever asks is within a call of its own.
      channel.eventLoop.execute { channel.pipeline.fireUserInboundEventTriggered(shed) }
    }
  }

  private static func admit(_ channel: any Channel, _ source: NetworkAddress?, _ state: inout State) -> Admission {
    var displaced: (any Channel)?
    switch state.share.take(for: source) {
    case .granted: break
    case .refused: return .refused
    case .inPlaceOf(let largest):
      // The last place of a row is no gap.
      displaced = state.rows[largest]?.channels.last ?? nil
      if let displaced { _ = remove(displaced, &state) }
    }
    state.places[ObjectIdentifier(channel)] = Place(source: source, index: state.rows[source]?.channels.count ?? 0)
    state.rows[source, default: Row()].channels.append(channel)
    return displaced.map { .inPlaceOf($0) } ?? .admitted
  }

  private static func remove(_ channel: any Channel, _ state: inout State) -> Bool {
    guard let place = state.places.removeValue(forKey: ObjectIdentifier(channel)) else { return false }
    state.share.giveBack(of: place.source)
    state.shared[ObjectIdentifier(channel)] = nil
    guard var row = state.rows.removeValue(forKey: place.source) else { return true }
    row.channels[place.index] = nil
    row.gaps += 1
    while let last = row.channels.last, last == nil {
      row.channels.removeLast()
      row.gaps -= 1
    }
    if row.gaps > row.channels.count / 2 {
      let before = row.channels.prefix(row.unasked).count { $0 != nil }
      row = Row(channels: row.channels.filter { $0 != nil }, unasked: before)
      for (index, channel) in row.channels.enumerated() {
        if let channel { state.places[ObjectIdentifier(channel)]?.index = index }
      }
    }
    if !row.channels.isEmpty { state.rows[place.source] = row }
    return true
  }
}
