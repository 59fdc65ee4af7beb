internal import Callers
internal import NIOCore

/// The connections of an event loop that are left unread because calls of theirs were refused.
///
/// Where there is too much to do, to read one call after the other costs several times what refusing them does. So most
/// connections wait here, and the others are served without delay. As soon as there is room, whoever came last is read
/// again: what it has sent meanwhile has waited the least. Who has waited for ``Limits/refusedPause`` is read in any case:
/// most of that is too late by then, unless its callers allow more than seven seconds, and is refused together, and the
/// connection comes here again, as the last one. What waits because a door is shut is late only for what needs the same
/// queue.
///
///     a call is refused ──▶ unread ──┬─ there is room, the last one first ──▶ read
///                                    └─ for long, the first one first ──────▶ read, mostly too late
final class RefusedLine {
  // Only touched on its event loop. A class, since a connection that is read may come back at once, within a look.

  /// What a call was refused for.
  enum Reason {
    /// It would have waited for its turn for longer than this.
    case late(TimeAmount)
    /// The door of its method was shut to its source.
    case shut(CallGate?, of: NetworkAddress?)
  }

  fileprivate struct Place {
    var connection: any LineMember
    var reason: Reason
    /// What the door was shut for.
    var queue: Backlog?
    var since: NIODeadline
  }

  private var places = CircularBuffer<Place>()
  /// Whom the last look had read.
  private var read: [any LineMember] = []
  private var lastLook = NIODeadline.uptimeNanoseconds(0)
  private var workedByLastLook = TimeAmount.zero

  /// Whether there is nothing to look at.
  var isEmpty: Bool { places.isEmpty && read.isEmpty }

  func append(_ connection: any LineMember, _ reason: Reason, at now: NIODeadline) {
    var place = Place(connection: connection, reason: reason, since: now)
    if case .shut(let gate, _) = reason { place.queue = gate?.queue }
    places.append(place)
  }

  /// Has some be read again, if it is time for it.
  ///
  /// The loop has looked at its sockets since this was last called.
  ///
  /// - Parameters:
  ///   - worked: how long the loop has worked so far.
  ///   - wait: how long one of a source waits for a turn now.
  func look(at now: NIODeadline, worked: TimeAmount, wait: (TurnSource) -> TimeAmount) {
    guard now - lastLook >= Limits.looksAtLine else { return }
    let hasRested = 2 * (worked - workedByLastLook).nanoseconds < (now - lastLook).nanoseconds
    (lastLook, workedByLastLook) = (now, worked)
    for connection in read { connection.hasCaughtUp() }
    read.removeAll(keepingCapacity: true)
    for _ in 0..<Limits.pausesEnded {
      guard let first = places.first, now - first.since >= Limits.refusedPause else { break }
      places.removeFirst()
      end(first, at: now)
    }
    var room = hasRested ? Limits.readFromLineAtRest : Limits.readFromLine
    var unserved: [Place] = []
    // Each once, also those that are refused again as they are read.
    for _ in 0..<places.count {
      guard room > 0, unserved.count < Limits.placesSeen, let last = places.popLast() else { break }
      if !last.isServed(wait(last.connection.source)) {
        unserved.append(last)
      } else if end(last, at: now) {
        room -= 1
      }
    }
    for place in unserved.reversed() { places.append(place) }
  }

  /// False when the connection is not read for another reason.
  @discardableResult
  private func end(_ place: Place, at now: NIODeadline) -> Bool {
    guard place.connection.lineEnds(place.wait(until: now)) else { return false }
    read.append(place.connection)
    return true
  }
}

extension RefusedLine.Place {
  fileprivate func wait(until now: NIODeadline) -> UnreadWait {
    let length = min(now - since, Limits.refusedPause)
    return switch reason {
    case .late: UnreadWait(any: length)
    case .shut: queue.map { UnreadWait(queued: length, for: $0) } ?? UnreadWait()
    }
  }

  /// Whether a call like the one that was refused would wait for less than half of what it may.
  fileprivate func isServed(_ wait: TimeAmount) -> Bool {
    switch reason {
    case .late(let patience): wait.nanoseconds * 2 < patience.nanoseconds
    case .shut(let gate, let source): gate?.isShut(to: source) != true
    }
  }
}

/// A connection in the line.
protocol LineMember: AnyObject {
  /// With whom it shares its turns.
  var source: TurnSource { get }

  /// It is to be read again. False when it is not, for another reason.
  ///
  /// - Parameter wait: how late what it has sent meanwhile counts as.
  func lineEnds(_ wait: UnreadWait) -> Bool

  /// What it had sent by then was read.
  func hasCaughtUp()
}
