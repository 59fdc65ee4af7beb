import JSON
import LatchkeyModel
import LatchkeyProtos

extension IdentityV1.ExportGuestResponse.Part {
  /// One document a line, each with its `type`.
  var lines: [String] { documents.map { String(decoding: $0.encoded(), as: UTF8.self) } }

  private var documents: [JSONValue] {
    switch self {
    case .subject(let subject):
      [
        [
          "type": "subject", "sub": .string(subject.sub), "is_guest": .bool(subject.isGuest),
          "created_at_ms": Self.time(subject.createdAt), "last_seen_at_ms": Self.time(subject.lastSeenAt),
          "name": .string(subject.profile?.name ?? ""), "locale": .string(subject.profile?.locale ?? ""),
        ]
      ]
    case .identity(let identity):
      [["type": "identity", "kind": .string(identity.kind), "mask": .string(identity.mask)]]
    case .device(let device):
      [
        [
          "type": "device", "key_thumbprint": .string(device.keyThumbprint), "label": .string(device.label),
          "platform": .string(device.platform), "first_seen_at_ms": Self.time(device.firstSeenAt),
        ]
      ]
    case .session(let session):
      [
        [
          "type": "session", "sid": .string(session.sid), "method": .string(session.method),
          "client_id": .string(session.clientID), "created_at_ms": Self.time(session.createdAt),
        ]
      ]
    case .guide(let guide):
      [
        [
          "type": "guide", "guide_id": .string(guide.guideID),
          "cursor": .integer(Int64(guide.progress?.cursor ?? 0)), "step_id": .string(guide.progress?.stepID ?? ""),
        ]
      ]
    case .records(let page):
      page.records.map { record in
        [
          "type": "record", "collection": .string(record.collection), "key": .string(record.key),
          "value_base64url": .string(Base64URL.encode(record.value)), "number": .integer(record.number),
          "updated_at_ms": Self.time(record.updatedAt), "revision": .integer(record.revision),
        ]
      }
    case .complete(let summary):
      [["type": "complete", "records": .integer(summary.records)]]
    }
  }

  private static func time(_ time: GoogleProtobuf.Timestamp?) -> JSONValue {
    time?.millisecondsSinceEpoch.map { .integer($0) } ?? .null
  }
}
