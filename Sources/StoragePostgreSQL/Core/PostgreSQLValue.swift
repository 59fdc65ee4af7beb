import LatchkeyModel

/// A value that a statement takes.
///
/// PostgreSQL gives each parameter the type of what it is compared with or stored in; where that does not say it, the
/// statement does: `$1::bytea`. Bytes go into `bytea` columns, and sixteen of them into `uuid` ones.
package enum PostgreSQLValue: Sendable, Equatable {
  case null
  case integer(Int64)
  case text(String)
  case bytes([UInt8])
  case bool(Bool)
  /// `$1::bigint[]`
  case integers([Int64])
  /// `$1::text[]`
  case texts([String])
  /// `$1::bytea[]`
  case byteArrays([[UInt8]])
  /// `$1::uuid[]`: sixteen bytes each.
  case uuids([[UInt8]])

  package static func integer(_ value: Int) -> PostgreSQLValue { .integer(Int64(value)) }

  package static func boolean(_ value: Bool) -> PostgreSQLValue { .bool(value) }

  package static func blob(_ value: [UInt8]) -> PostgreSQLValue { .bytes(value) }

  package static func optional(_ value: Int64?) -> PostgreSQLValue { value.map { .integer($0) } ?? .null }

  package static func optional(_ value: String?) -> PostgreSQLValue { value.map { .text($0) } ?? .null }

  package static func optional(_ value: [UInt8]?) -> PostgreSQLValue { value.map { .bytes($0) } ?? .null }

  package static func optional(_ value: Bool?) -> PostgreSQLValue { value.map { .bool($0) } ?? .null }

  /// Milliseconds since the epoch.
  package static func time(_ time: Timestamp) -> PostgreSQLValue { .integer(time.millisecondsSinceEpoch) }

  package static func id(_ id: some OpaqueID) -> PostgreSQLValue { .bytes(id.bytes) }
}
