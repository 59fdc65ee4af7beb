/// A statement about one row, by its key, and the one that does the same for several rows at once: it takes an array for each
/// value. Both answer each row that they found or changed, with its key.
final class PostgreSQLRowStatement: Sendable {
  let one: String
  private let many: String
  /// What the values are, in their order.
  private let kinds: [PostgreSQLColumn]
  /// Where an answered row has its key.
  private let keyColumn: Int32
  /// Two of them about the same row are never one statement.
  let isChange: Bool

  init(one: String, many: String, _ kinds: [PostgreSQLColumn], keyColumn: Int32, isChange: Bool) {
    (self.one, self.many, self.kinds, self.keyColumn, self.isChange) = (one, many, kinds, keyColumn, isChange)
  }

  /// Finds rows by one of their columns, which is the `place`th of those that are answered.
  static func find(_ columns: String, in table: String, by key: String, _ kind: PostgreSQLColumn, at place: Int32)
    -> PostgreSQLRowStatement
  {
    let select = "SELECT \(columns) FROM \(table) WHERE \(key)"
    return PostgreSQLRowStatement(
      one: "\(select) = $1", many: "\(select) = ANY ($1::\(kind.rawValue)[])", [kind], keyColumn: place, isChange: false
    )
  }

  /// What is sent for `questions`, of which there is at least one, each about another row where it changes any.
  func statement(
    for questions: [PostgreSQLRowQuestions.Asked]
  ) -> (sql: String, values: [PostgreSQLValue], receive: PostgreSQLWire.Receiver) {
    precondition(questions.allSatisfy { $0.question.values.count == kinds.count }, "each has a value for each kind")
    if questions.count == 1 {
      let sole = questions[0]
      return (one, sole.question.values, { sole.receive($0.firstRow) })
    }
    // Two that change the same rows at the same time come to them in the same order, and neither waits for the other in turn.
    let questions =
      isChange ? questions.sorted { $0.question.key.lexicographicallyPrecedes($1.question.key) } : questions
    let values = kinds.enumerated().map { place, kind in
      PostgreSQLValue.column(kind, questions.map { $0.question.values[place] })
    }
    return (
      many, values,
      { [keyColumn] result in
        var rows: [[UInt8]: PostgreSQLRow] = [:]
        for number in 0..<result.count {
          let row = PostgreSQLRow(result, number)
          rows[row.bytes(keyColumn)] = row
        }
        for asked in questions { asked.receive(rows[asked.question.key]) }
      }
    )
  }
}

/// What one operation asks about one row.
struct PostgreSQLRowQuestion: Sendable {
  let statement: PostgreSQLRowStatement
  /// As the answered row has it.
  let key: [UInt8]
  let values: [PostgreSQLValue]
}

/// Questions that are held back, so that those of one statement are sent together. Nothing else is sent before them.
struct PostgreSQLRowQuestions {
  struct Asked {
    let question: PostgreSQLRowQuestion
    /// Gets the row, or nil where there is none; it holds for the call.
    let receive: (PostgreSQLRow?) -> Void
  }

  private var held: [(statement: PostgreSQLRowStatement, asked: [Asked])] = []
  private var keys: Set<[UInt8]> = []
  private var hasChange = false

  var isEmpty: Bool { held.isEmpty }

  /// Whether what is held is to be sent before this one: it is about a row of theirs, and one of the two changes it.
  func comesBefore(_ question: PostgreSQLRowQuestion) -> Bool {
    (hasChange || question.statement.isChange) && keys.contains(question.key)
  }

  mutating func append(_ asked: Asked) {
    let statement = asked.question.statement
    if let place = held.firstIndex(where: { $0.statement === statement }) {
      held[place].asked.append(asked)
    } else {
      held.append((statement, [asked]))
    }
    keys.insert(asked.question.key)
    hasChange = hasChange || statement.isChange
  }

  mutating func takeAll() -> [(statement: PostgreSQLRowStatement, asked: [Asked])] {
    defer { self = PostgreSQLRowQuestions() }
    return held
  }
}
