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
  /// An array of a column's values, each of its kind or NULL: `$1::bigint[]`.
  case column(PostgreSQLColumn, [PostgreSQLValue])

  package static func integers(_ values: [Int64]) -> PostgreSQLValue { .column(.integer, values.map { .integer($0) }) }

  package static func texts(_ values: [String]) -> PostgreSQLValue { .column(.text, values.map { .text($0) }) }

  package static func byteArrays(_ values: [[UInt8]]) -> PostgreSQLValue { .column(.bytes, values.map { .bytes($0) }) }

  /// Sixteen bytes each.
  package static func uuids(_ values: [[UInt8]]) -> PostgreSQLValue { .column(.id, values.map { .bytes($0) }) }

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

/// What a column holds. Raw values are PostgreSQL's names of the types.
package enum PostgreSQLColumn: String, Sendable {
  case integer = "bigint"
  case text
  case bytes = "bytea"
  case id = "uuid"
  case flag = "boolean"

  /// The type's number, the same in every installation.
  var number: Int32 {
    switch self {
    case .integer: 20
    case .text: 25
    case .bytes: 17
    case .id: 2950
    case .flag: 16
    }
  }
}
