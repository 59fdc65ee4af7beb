import Cryptography
import LatchkeyModel
import LatchkeyProtos

/// Somebody as an administrator sees them.
struct AdminUser {
  let message: IdentityV1.GetSubjectResponse

  /// By id or by identifier: no identifier looks like an id.
  static func find(_ who: String, _ service: AdminConnection) async throws -> AdminUser {
    let request = IdentityV1.GetSubjectRequest(who: SubjectID(who) == nil ? .identifier(who) : .sub(who))
    return AdminUser(message: try await service.admin.getSubject(request, options: service.options))
  }

  private var kind: String {
    switch message.kind {
    case .guest: "guest"
    case .account: "account"
    case .merged: "merged"
    case .deleted: "deleted"
    case .unspecified, .unrecognized: "unknown"
    }
  }

  var text: String {
    var lines = ["\(message.sub): \(kind)\(message.mergedInto.isEmpty ? "" : " into \(message.mergedInto)")"]
    func line(_ name: String, _ time: GoogleProtobuf.Timestamp?) {
      if let time = time?.millisecondsSinceEpoch { lines.append("\(name) \(RFC3339.text(time))") }
    }
    line("since", message.createdAt)
    line("last seen", message.lastSeenAt)
    line("disabled since", message.disabledAt)
    line("exported", message.exportedAt)
    if let name = message.profile?.name, !name.isEmpty { lines.append("name \(name)") }
    for identity in message.identities { lines.append("identity \(identity.kind) \(identity.mask)") }
    for session in message.sessions {
      lines.append("session \(session.sid) \(session.method) \(session.clientID) \(session.deviceLabel)")
    }
    return lines.map { TerminalText.line($0) }.joined(separator: "\n")
  }

  var json: JSONValue {
    func time(_ time: GoogleProtobuf.Timestamp?) -> JSONValue {
      time?.millisecondsSinceEpoch.map { .string(RFC3339.text($0)) } ?? .null
    }
    return [
      "sub": .string(message.sub),
      "kind": .string(kind),
      "merged_into": message.mergedInto.isEmpty ? .null : .string(message.mergedInto),
      "created_at": time(message.createdAt),
      "last_seen_at": time(message.lastSeenAt),
      "disabled_at": time(message.disabledAt),
      "exported_at": time(message.exportedAt),
      "name": .string(message.profile?.name ?? ""),
      "identities": .array(
        message.identities.map { ["kind": .string($0.kind), "mask": .string($0.mask)] }),
      "sessions": .array(
        message.sessions.map { session in
          [
            "sid": .string(session.sid), "client_id": .string(session.clientID), "method": .string(session.method),
            "device_label": .string(session.deviceLabel), "created_at": time(session.createdAt),
          ]
        }),
    ]
  }
}
