/// The number under which instances agree on a row that may not be there: an advisory lock's.
///
/// All instances must come to the same one, whatever their release: FNV-1a of table, part and key, and a mixing of its bits. Two
/// keys with one number wait for each other, and nothing else happens.
enum LockKey {
  static func number(_ table: StaticString, _ key: [PostgreSQLValue]) -> Int64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    func add(_ bytes: some Sequence<UInt8>) {
      for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
      // Ends the part: 0xFF is in no UTF-8, and lengths differ otherwise.
      hash = (hash ^ 0xFF) &* 0x0000_0100_0000_01b3
    }
    add(table.description.utf8)
    for value in key { add(bytes(of: value)) }
    hash = (hash ^ (hash >> 30)) &* 0xBF58_476D_1CE4_E5B9
    hash = (hash ^ (hash >> 27)) &* 0x94D0_49BB_1331_11EB
    return Int64(bitPattern: hash ^ (hash >> 31))
  }

  private static func bytes(of value: PostgreSQLValue) -> [UInt8] {
    switch value {
    case .null: []
    case .integer(let value): Array(String(value).utf8)
    case .text(let value): Array(value.utf8)
    case .bytes(let value): value
    case .bool(let value): [value ? 1 : 0]
    case .column: preconditionFailure("an array is no key")
    }
  }
}
