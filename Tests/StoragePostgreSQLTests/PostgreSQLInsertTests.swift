import Storage
import Testing

@testable import StoragePostgreSQL

/// Rows that operations add.
extension PostgreSQLGroupTests {
  private static let number = PostgreSQLInsert(
    into: "numbers", ["key": .text, "number": .integer],
    orElse: "ON CONFLICT (key) DO UPDATE SET number = excluded.number")
  private static let newNumber = PostgreSQLInsert(into: "numbers", ["key": .text, "number": .integer])
  private static let kinds = PostgreSQLInsert(
    into: "kinds", ["number": .integer, "text": .text, "bytes": .bytes, "id": .id, "flag": .flag], by: "number")

  private static func row(_ number: Int64) -> [PostgreSQLValue] {
    [.integer(number), .text("\(number)"), .null, .null, .null]
  }

  typealias Body = @Sendable (Int, PostgreSQLConnection) async throws(StorageError) -> Int64

  /// Runs `body` so many times side by side in one transaction, each about a row of its own.
  private func together(
    in test: TestDatabase, _ count: Int, _ body: @escaping Body
  ) async throws -> [Result<Int64, any Error>] {
    var works: [Work] = []
    for place in 0..<count {
      works.append {
        try await test.database.write("add \(place)", about: ["\(place)"]) { db throws(StorageError) in
          try await body(place, db)
        }
      }
    }
    return try await together(in: test, works)
  }

  /// Which of the statements of its transaction wrote each row of `table`.
  private func statements(_ table: String, by column: String, in test: TestDatabase) async throws -> [[Int64]] {
    try await test.database.read { db throws(StorageError) in
      try await db.all("SELECT cmin::text::bigint, xmin::text::bigint FROM \(table) ORDER BY \(column)") { row in
        [row.integer(0), row.integer(1)]
      }
    }
  }

  @Test("adds rows to each table by one statement for all, and each operation's in its own order")
  func additions() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let results = try await together(in: test, 6) { place, db throws(StorageError) in
      let number = Int64(place)
      if place == 3 { try await db.add([Self.row(number)], by: Self.kinds) }
      try await db.add([[.text("\(place)"), .integer(number)]], by: Self.number)
      if place != 3 { try await db.add([Self.row(number), Self.row(number + 10)], by: Self.kinds) }
      return number
    }
    #expect(try results.map { try $0.get() } == [0, 1, 2, 3, 4, 5])
    let numbers = try await statements("numbers", by: "key", in: test)
    let kinds = try await statements("kinds", by: "number", in: test)
    #expect(numbers.count == 6 && kinds.count == 11)
    #expect(Set((numbers + kinds).map { $0[1] }).count == 1)
    // The fourth adds its kind first: its number comes after that, and so does what others add to either later.
    let order = [numbers[..<3], kinds[..<4] + kinds[6..<9], numbers[3...], kinds[4..<6] + kinds[9...]]
    let statements = order.map { Set($0.map { $0[0] }) }
    #expect(statements.allSatisfy { $0.count == 1 })
    #expect(statements.compactMap(\.first) == statements.compactMap(\.first).sorted() && Set(statements).count == 4)
  }

  @Test("has rows that were added found by whatever is asked next, by whomever")
  func additionsAreFound() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let results = try await together(in: test, 5) { place, db throws(StorageError) in
      try await db.add([[.text("\(place)"), .integer(Int64(place))]], by: Self.newNumber)
      try await db.execute("UPDATE numbers SET number = number + 10 WHERE key = $1", .text("\(place)"))
      let mine = try await db.first("SELECT number FROM numbers WHERE key = $1", .text("\(place)")) { $0.integer(0) }
      try await db.add([[.text("\(place) again"), .integer(mine ?? -1)]], by: Self.newNumber)
      return try await db.first("SELECT count(*) FROM numbers WHERE key LIKE '%again'") { $0.integer(0) } ?? -1
    }
    #expect(try results.map { try $0.get() }.last == 5)
    for place in 0..<5 { #expect(try await test.number("\(place) again") == Int64(place) + 10) }
  }

  @Test("adds one after the other what is about the same row, and each sees those before it")
  func additionsInOrder() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let works = (0..<20).map { _ -> Work in
      { @Sendable in
        try await test.database.write("count", about: ["k"]) { db throws(StorageError) in
          let found = try await db.first("SELECT number FROM numbers WHERE key = 'k' FOR UPDATE") { $0.integer(0) } ?? 0
          try await db.add([[.text("k"), .integer(found + 1)]], by: Self.number)
          return found
        }
      }
    }
    #expect(try await together(in: test, works).map { try $0.get() } == (0..<20).map { Int64($0) })
    #expect(try await test.number("k") == 20)
  }

  @Test("changes a row as often as it is added, in that order, also where nobody asks in between")
  func blindAdditions() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    let works = (0..<5 as Range<Int64>).map { number -> Work in
      { @Sendable in
        try await test.database.write("put", about: ["k"]) { db throws(StorageError) in
          try await db.add([[.text("k"), .integer(number)]], by: Self.number)
          return number
        }
      }
    }
    #expect(try await together(in: test, works).map { try $0.get() } == [0, 1, 2, 3, 4])
    #expect(try await test.number("k") == 4)
  }

  @Test("stays when one of the rows that it adds cannot be, and leaves nothing of one that throws")
  func failingAdditions() async throws {
    let test = try await TestDatabase(connections: 1, groupDuration: .seconds(60))
    try await test.put("there", 7)
    let results = try await together(in: test, 4) { place, db throws(StorageError) in
      let key = ["a", "there", "thrown", "b"][place]
      try await db.add([[.text(key), .integer(1)]], by: Self.newNumber)
      if key == "thrown" { throw StorageError(.corrupt, operation: "throw") }
      return 0
    }
    #expect(results.map { fault($0) } == [nil, .constraint(.unique), .corrupt, nil])
    for (key, number) in [("a", 1), ("there", 7), ("thrown", nil), ("b", 1)] as [(String, Int64?)] {
      #expect(try await test.number(key) == number)
    }
  }

  @Test("adds the same values whether they are one row's or many's", arguments: [1, 3])
  func addedValues(_ count: Int) async throws {
    let test = try await TestDatabase()
    let id = [UInt8](repeating: 0xAB, count: 16)
    let rows: [[PostgreSQLValue]] = [
      [.integer(.min), .text("ü\"\\{},NULL"), .bytes([0, 255, 92]), .bytes(id), .bool(true)],
      [.integer(7), .text(""), .bytes([]), .bytes(id), .bool(false)],
      [.integer(.max), .null, .null, .null, .null],
    ]
    for start in stride(from: 0, to: 3, by: count) {
      try await test.database.write { db throws(StorageError) in
        try await db.add(Array(rows[start..<start + count]), by: Self.kinds)
      }
    }
    let found = try await test.database.read { db throws(StorageError) in
      try await db.all("SELECT number, text, bytes, id, flag FROM kinds ORDER BY number") { row -> [PostgreSQLValue] in
        [
          .integer(row.integer(0)), .optional(row.optionalText(1)), .optional(row.optionalBytes(2)),
          .optional(row.optionalBytes(3)), row.isNull(4) ? .null : .bool(row.boolean(4)),
        ]
      }
    }
    #expect(found == rows)
  }
}
