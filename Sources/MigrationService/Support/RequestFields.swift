import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

/// Turns fields of requests into domain values, or says which one is at fault and why.
enum RequestFields {
  /// Errors: `OTHER_CELL` for an id of another cell than this one.
  static func subject(_ text: String, _ field: String, in cell: Cell) throws(RPCError) -> SubjectID {
    guard let subject = SubjectID(text) else { throw .invalid(field, "must be a subject's id") }
    try cell.requireSame(subject.cell)
    return subject
  }

  static func collection(_ text: String, _ field: String) throws(RPCError) -> CollectionName {
    guard let name = CollectionName(text) else {
      throw .invalid(field, "must be 1 to \(CollectionName.maximumBytes) lower-case letters, digits, '_' or '-'")
    }
    return name
  }

  static func key(_ text: String, _ field: String) throws(RPCError) -> RecordKey {
    guard let key = RecordKey(text) else {
      throw .invalid(field, "must be 1 to \(RecordKey.maximumBytes) bytes without control characters")
    }
    return key
  }

  /// A record to write. Without a time it happened now.
  static func draft(_ record: MigrationV1.Record, _ field: String, now: Timestamp) throws(RPCError) -> RecordDraft {
    let name = RecordName(
      collection: try collection(record.collection, "\(field).collection"), key: try key(record.key, "\(field).key"))
    guard record.value.count <= RecordContent.maximumValueBytes else {
      throw .invalid("\(field).value", "must be at most \(RecordContent.maximumValueBytes) bytes")
    }
    guard record.revision == 0 else { throw .invalid("\(field).revision", "is set by the server") }
    var updatedAt = now
    if let time = record.updatedAt {
      guard let milliseconds = time.millisecondsSinceEpoch else {
        throw .invalid("\(field).updated_at", "must be a time from year 1 to 9999, with nanoseconds within a second")
      }
      updatedAt = Timestamp(millisecondsSinceEpoch: milliseconds)
    }
    return RecordDraft(
      name: name, content: RecordContent(value: record.value, number: record.number, updatedAt: updatedAt))
  }

  static func pageSize(_ size: Int32) throws(RPCError) -> Int {
    guard size >= 0, size <= Limits.largestPageSize else {
      throw .invalid("page_size", "must be 0 to \(Limits.largestPageSize)")
    }
    return size == 0 ? Limits.defaultPageSize : Int(size)
  }

  /// A place in a list, as the page before it named it; nil for the first page.
  static func pagePlace<Place>(_ token: String, _ parse: (String) -> Place?) throws(RPCError) -> Place? {
    if token.isEmpty { return nil }
    guard let place = parse(token) else { throw .invalid("page_token", "must be a next_page_token as it was received") }
    return place
  }

  static func overrides(
    _ overrides: [MigrationV1.PolicyOverride]
  ) throws(RPCError) -> [CollectionName: MigrationPolicy] {
    guard overrides.count <= Limits.policyOverrides else {
      throw .invalid("policy_overrides", "must be at most \(Limits.policyOverrides)")
    }
    var policies: [CollectionName: MigrationPolicy] = [:]
    for (index, override) in overrides.enumerated() {
      let field = "policy_overrides[\(index)]"
      let name = try collection(override.collection, "\(field).collection")
      guard let policy = MigrationPolicy(override.policy) else {
        throw .invalid("\(field).policy", "is not a policy that this server knows")
      }
      guard policies.updateValue(policy, forKey: name) == nil else {
        throw .invalid("\(field).collection", "is named twice")
      }
    }
    return policies
  }

  static func idempotencyKey(_ text: String, _ field: String) throws(RPCError) -> String {
    guard (1...Limits.idempotencyKeyBytes).contains(text.utf8.count), !text.utf8.contains(where: { $0 < 0x20 }) else {
      throw .invalid(field, "must be 1 to \(Limits.idempotencyKeyBytes) bytes without control characters")
    }
    return text
  }

  static func digest(_ text: String) throws(RPCError) -> [UInt8] {
    guard text.utf8.count == Limits.digestCharacters, let digest = Base64URL.decode(text) else {
      throw .invalid("digest", "must be the digest of the plan as it was received")
    }
    return digest
  }
}
