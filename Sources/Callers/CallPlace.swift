/// Where the call stands for which the current task works: in whose name, and at whose door.
///
/// The transport sets it around the handlers of a call. Queues look at it where they have to choose: whom they refuse, and
/// whose door that shuts.
package struct CallPlace: Sendable {
  /// Nil where a task works for no call.
  @TaskLocal package static var current: CallPlace?

  /// Of the call's method; nil where what is refused now is no reason to shut it.
  package var gate: CallGate?
  /// The source that the call comes from; nil for one without an address.
  package var holder: NetworkAddress?
  /// It ends what the call has begun, such as a try that was counted: queues take it however much waits. Each call that
  /// was let in has one or two of these.
  package var isOwed: Bool

  package init(gate: CallGate? = nil, holder: NetworkAddress? = nil, isOwed: Bool = false) {
    self.gate = gate
    self.holder = holder
    self.isOwed = isOwed
  }
}
