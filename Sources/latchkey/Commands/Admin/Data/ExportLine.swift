import Cryptography
import LatchkeyModel
import StorageSQLite

/// A row as a line of JSON: an object with a member for each column, in the table's order. Bytes are base64url.
enum ExportLine {
  static func text(_ values: [SQLiteValue], of columns: [SQLiteTable.Column]) -> [UInt8] {
    let members = zip(columns, values).map { column, value in
      let json: JSONValue =
        switch value {
        case .null: .null
        case .integer(let number): .integer(number)
        case .text(let text): .string(text)
        case .blob(let bytes): .string(Base64URL.encode(bytes))
        }
      return JSONValue.Member(column.name, json)
    }
    return JSONValue.object(members).encoded() + [UInt8(ascii: "\n")]
  }

  /// Nil for a line that is no row of the table.
  static func values(_ line: [UInt8], of columns: [SQLiteTable.Column]) -> [SQLiteValue]? {
    guard let members = (try? JSONValue(parsing: line))?.members, members.count == columns.count else {
      return nil
    }
    var values: [SQLiteValue] = []
    for (column, member) in zip(columns, members) {
      guard column.name == member.name else { return nil }
      switch (column.type, member.value) {
      case (_, .null): values.append(.null)
      case ("INTEGER", .integer(let number)): values.append(.integer(number))
      case ("TEXT", .string(let text)): values.append(.text(text))
      case ("BLOB", .string(let text)):
        guard let bytes = Base64URL.decode(text) else { return nil }
        values.append(.blob(bytes))
      default: return nil
      }
    }
    return values
  }
}
