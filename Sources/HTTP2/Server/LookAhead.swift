/// How far a session has looked ahead in the bytes that it is receiving.
struct LookAhead {
  enum State {
    /// No request of these bytes was answered directly yet.
    case untried
    case on
    case off
  }

  var state = State.untried
  /// Where it looks next.
  var place = 0
  /// Bodies before that place whose turn has not come.
  var bodies = 0

  var isOn: Bool { state == .on }
}
