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
    var rows: [(String, String)] = []
    func row(_ name: String, _ time: GoogleProtobuf.Timestamp?) {
      if let time = time?.millisecondsSinceEpoch { rows.append((name, Ago.text(time))) }
    }
    row("began", message.createdAt)
    row("last seen", message.lastSeenAt)
    row("disabled", message.disabledAt)
    row("exported", message.exportedAt)
    rows.append(("name", message.profile?.name ?? ""))
    for identity in message.identities { rows.append(("identity", "\(identity.kind) \(identity.mask)")) }
    for session in message.sessions {
      let began = session.createdAt?.millisecondsSinceEpoch.map { Ago.text($0) } ?? ""
      let words = [session.sid, session.method, session.clientID, session.deviceLabel, began]
      rows.append(("session", words.filter { !$0.isEmpty }.joined(separator: ", ")))
    }
    let title = "\(message.sub): \(kind)\(message.mergedInto.isEmpty ? "" : " into \(message.mergedInto)")"
    return TerminalText.line(title) + "\n" + Layout.pairs(rows, indent: 2, columns: Output.columns)
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
