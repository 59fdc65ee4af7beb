import LatchkeyModel
import Storage

/// The counts of each collection.
enum MigrationReports {
  private static let select = """
    SELECT name, policy, maximum_rows, source_count, moved, kept, replaced, summed, refused, asked, remained
    FROM migration_collections WHERE migration = ? ORDER BY name
    """

  static func collections(of id: MigrationID, in db: SQLiteConnection) throws(StorageError) -> [CollectionReport] {
    try db.all(select, .id(id)) { row throws(StorageError) in
      CollectionReport(
        collection: try row.collection(0),
        policy: try row.named(1),
        maximumRows: row.optionalInteger(2).map(Int.init),
        sourceCount: Int(row.integer(3)),
        counts: [
          .moved: Int(row.integer(4)), .kept: Int(row.integer(5)), .replaced: Int(row.integer(6)),
          .summed: Int(row.integer(7)), .refused: Int(row.integer(8)), .asked: Int(row.integer(9)),
        ],
        remained: Int(row.integer(10)))
    }
  }

  private static let update = """
    UPDATE migration_collections SET moved = ?3, kept = ?4, replaced = ?5, summed = ?6, refused = ?7, asked = ?8
    WHERE migration = ?1 AND name = ?2
    """

  static func store(_ report: CollectionReport, of id: MigrationID, in db: SQLiteConnection) throws(StorageError) {
    try db.execute(
      update, .id(id), .name(report.collection), .integer(report[.moved]), .integer(report[.kept]),
      .integer(report[.replaced]), .integer(report[.summed]), .integer(report[.refused]), .integer(report[.asked]))
  }
}
