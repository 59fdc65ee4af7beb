/// A part's tables, as the steps that made them: each release knows those of the one before and its own.
///
/// The tables of a part are in the schema of its name, which is the connections' search path: statements name them without
/// it. So three services may share a database, each as a user of its own who reaches nothing but its schema. Each part has the
/// table of ``CommitLane``.
package struct PostgreSQLSchema: Sendable {
  /// Such as `identity`: lower-case letters.
  package let part: String
  /// Numbered from 1 on. A released step is never edited.
  package let steps: [SchemaStep]
  /// A statement finds its rows by an index, and has one plan for all values, unless its transaction says otherwise
  /// (``PostgreSQLConnection/planFreely()``). PostgreSQL keeps a plan for as long as it does not look at the table anew, which
  /// takes a minute: one that was made while the table was small would read all of it then.
  let isFoundByKeys: Bool

  package init(part: String, steps: [SchemaStep], isFoundByKeys: Bool = false) {
    self.isFoundByKeys = isFoundByKeys
    precondition(steps.first?.kind == .expand, "the first step makes the first tables")
    precondition(part.utf8.allSatisfy { (97...122).contains($0) }, "a part's name needs no quotes")
    self.part = part
    self.steps = steps
  }

  /// The number of the last step.
  package var latest: Int { steps.count }

  func number(_ kind: SchemaStep.Kind) -> [Int] {
    (1...latest).filter { steps[$0 - 1].kind == kind }
  }
}

/// One change of a part's tables.
///
/// A column goes in three releases. The first adds the new one in a step that expands, fills it in another, and writes
/// both; the second uses the new one alone; the third takes the old one away in a step that contracts. So each release works
/// beside the one before, and can be gone back to until somebody contracts.
package struct SchemaStep: Sendable {
  package enum Kind: String, Sendable {
    /// Adds what releases that do not know the step can work beside: tables, indexes, columns that may be left out. Made
    /// before any instance of the release serves, whatever older steps that contract are made or not.
    case expand
    /// Takes away what no release needs that knows the step. Made when somebody says so and no instance lives that does not
    /// know it; from then on none can start.
    case contract
  }

  enum Work: Sendable {
    /// In one transaction: all or nothing. Best of one table each: its lock is held while that of the next is waited for.
    case statements([String])
    /// Built beside writers. One that was given up half-way is dropped and begun again.
    case index(name: String, definition: String)
    /// A statement that does a batch. `$1` is the text that the batch before answered, NULL at first; it answers none when
    /// nothing is left. Each batch is a transaction, and its answer is kept with it.
    case batches(String)
  }

  package let kind: Kind
  /// What it does, for people.
  package let name: String
  let work: Work

  package static func expand(_ name: String, _ statements: [String]) -> SchemaStep {
    SchemaStep(kind: .expand, name: name, work: .statements(statements))
  }

  /// - Parameter definition: what follows behind `CREATE INDEX CONCURRENTLY name`: `ON table (column)`.
  package static func index(_ name: String, _ definition: String) -> SchemaStep {
    SchemaStep(kind: .expand, name: "the index \(name)", work: .index(name: name, definition: definition))
  }

  /// ```sql
  /// WITH batch AS (SELECT id FROM people WHERE id > coalesce($1::bigint, 0) ORDER BY id LIMIT 1000),
  ///   filled AS (UPDATE people SET folded = lower(name) FROM batch WHERE people.id = batch.id)
  /// SELECT max(id)::text FROM batch HAVING count(*) > 0
  /// ```
  package static func fill(_ name: String, batch: String) -> SchemaStep {
    SchemaStep(kind: .expand, name: name, work: .batches(batch))
  }

  package static func contract(_ name: String, _ statements: [String]) -> SchemaStep {
    SchemaStep(kind: .contract, name: name, work: .statements(statements))
  }
}
