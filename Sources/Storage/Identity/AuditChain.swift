/// Ties each event to those before it: its link is a keyed hash over the link before and the whole event. Changing,
/// removing or slipping in an event breaks every link from there on, and without the key none can be made anew.
package struct AuditChain: Sendable {
  /// The link before the first event.
  package static let origin = [UInt8](repeating: 0, count: 32)

  private let authenticate: @Sendable ([UInt8]) -> [UInt8]

  /// - Parameter authenticate: HMAC-SHA256 with a key that is used for nothing else.
  package init(authenticate: @escaping @Sendable ([UInt8]) -> [UInt8]) {
    self.authenticate = authenticate
  }

  /// What shows that the service itself forgot everything up to an event.
  package func seal(sequence: Int64, link: [UInt8]) -> [UInt8] {
    authenticate(Array("latchkey-audit-checkpoint-v1".utf8) + Array("\(sequence)".utf8) + [0] + link)
  }

  package func link(after previous: [UInt8], sequence: Int64, _ note: AuditNote) -> [UInt8] {
    var message = Array("latchkey-audit-v1".utf8)
    message.append(contentsOf: previous)
    for field in [
      Array("\(sequence)".utf8), Array(note.kind.rawValue.utf8), Array("\(note.at.millisecondsSinceEpoch)".utf8),
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
