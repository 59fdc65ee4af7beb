/// Where a guide's mask has its hole and its label, for a view of any platform. Pure: rectangles in, rectangles out.
public enum GuideGeometry {
  public struct Rect: Sendable, Equatable {
    public var x: Double
    public var y: Double
    public var width: Double
    public var height: Double

    public init(x: Double, y: Double, width: Double, height: Double) {
      self.x = x
      self.y = y
      self.width = width
      self.height = height
    }

    var maxX: Double { x + width }
    var maxY: Double { y + height }

    func contains(_ point: (x: Double, y: Double)) -> Bool {
      point.x >= x && point.x < maxX && point.y >= y && point.y < maxY
    }
  }

  public enum Side: Sendable, CaseIterable {
    case above, below, before, after
  }

  /// Who can carry the mask; the first that is there does.
  public enum Host: Int, Sendable, CaseIterable, Comparable {
    case tab, navigation, view

    public static func < (left: Host, right: Host) -> Bool { left.rawValue < right.rawValue }
  }

  public static func host(among hosts: some Sequence<Host>) -> Host? { hosts.min() }

  /// The part of a target that is on the screen, widened by a margin; nil when none is.
  public static func hole(for target: Rect, in screen: Rect, margin: Double = 0) -> Rect? {
    let (left, top) = (max(target.x - margin, screen.x), max(target.y - margin, screen.y))
    let (right, bottom) = (min(target.maxX + margin, screen.maxX), min(target.maxY + margin, screen.maxY))
    guard right > left, bottom > top else { return nil }
    return Rect(x: left, y: top, width: right - left, height: bottom - top)
  }

  /// Whether a touch goes through to the target: inside the hole, or, for a reversed step, anywhere else.
  public static func passes(touch x: Double, _ y: Double, hole: Rect, isReversed: Bool) -> Bool {
    hole.contains((x, y)) != isReversed
  }

  /// The side of the hole with the most free area, and the room there is. Of equal sides the first one wins, in the
  /// order above, below, before, after.
  public static func labelSide(of hole: Rect, in screen: Rect) -> (side: Side, room: Rect) {
    let rooms: [(side: Side, room: Rect)] = [
      (.above, Rect(x: screen.x, y: screen.y, width: screen.width, height: max(0, hole.y - screen.y))),
      (.below, Rect(x: screen.x, y: hole.maxY, width: screen.width, height: max(0, screen.maxY - hole.maxY))),
      (.before, Rect(x: screen.x, y: screen.y, width: max(0, hole.x - screen.x), height: screen.height)),
      (.after, Rect(x: hole.maxX, y: screen.y, width: max(0, screen.maxX - hole.maxX), height: screen.height)),
    ]
    var best = rooms[0]
    for one in rooms.dropFirst() where one.room.width * one.room.height > best.room.width * best.room.height {
      best = one
    }
    return best
  }
}
