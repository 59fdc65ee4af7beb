/// Ties each event to those before it in its chain: its link is a keyed hash over the link before and the whole event.
/// Changing, removing or slipping in an event breaks every link from there on, and without the key none can be made anew.
///
/// Where several transactions append at once each has a chain of its own, or they would wait for each other. An event
/// that says where the others end, the ``AuditSeal``, shows when the end of one is cut off.
package struct AuditChain: Sendable {
  /// The link before the first event.
  package static let origin = [UInt8](repeating: 0, count: 32)

  private let authenticate: @Sendable ([UInt8]) -> [UInt8]

  /// - Parameter authenticate: HMAC-SHA256 with a key that is used for nothing else.
  package init(authenticate: @escaping @Sendable ([UInt8]) -> [UInt8]) {
    self.authenticate = authenticate
  }

  /// What shows that the service itself forgot everything of a chain up to an event.
  package func seal(_ end: AuditEnd) -> [UInt8] {
    // The one chain of an engine is without a name, as it was before there were several.
    let name = end.chain == 0 ? "latchkey-audit-checkpoint-v1" : "latchkey-audit-checkpoint-v2 \(end.chain) "
    return authenticate(Array(name.utf8) + Array("\(end.number)".utf8) + [0] + end.link)
  }

  /// The link of the event that follows where the chain ends.
  package func link(after end: AuditEnd, _ note: AuditNote) -> [UInt8] {
    var message = Array((end.chain == 0 ? "latchkey-audit-v1" : "latchkey-audit-v2 \(end.chain) ").utf8)
    message.append(contentsOf: end.link)
    for field in [
      Array("\(end.number + 1)".utf8), Array(note.kind.rawValue.utf8), Array("\(note.at.millisecondsSinceEpoch)".utf8),
      note.subject?.bytes ?? [], note.session?.bytes ?? [], Array(note.address.utf8), Array(note.detail.utf8),
    ] {
      // Each field says its length, so that no two events are the same bytes.
      let length = UInt32(field.count)
      for shift in stride(from: UInt32(24), through: 0, by: -8) {
        message.append(UInt8(truncatingIfNeeded: length >> shift))
      }
      message.append(contentsOf: field)
    }
    return authenticate(message)
  }
}
