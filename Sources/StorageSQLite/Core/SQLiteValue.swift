/// A value that a statement takes.
package enum SQLiteValue: Sendable, Equatable {
  case null
  case integer(Int64)
  case text(String)
  case blob([UInt8])

  package static func integer(_ value: Int) -> SQLiteValue { .integer(Int64(value)) }

  /// 1 or 0.
  package static func boolean(_ value: Bool) -> SQLiteValue { .integer(value ? 1 : 0) }

  package static func optional(_ value: Int64?) -> SQLiteValue { value.map { .integer($0) } ?? .null }

  package static func optional(_ value: String?) -> SQLiteValue { value.map { .text($0) } ?? .null }

  package static func optional(_ value: [UInt8]?) -> SQLiteValue { value.map { .blob($0) } ?? .null }
}
