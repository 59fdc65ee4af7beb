import Cryptography
import Glibc
import LatchkeyModel
import StorageSQLite

/// What an export holds: for each table its columns, its file, and what that has to come to. It is written last.
struct ExportManifest {
  struct Table: Equatable {
    let name: String
    let columns: [SQLiteTable.Column]
    let rows: Int64
    let bytes: Int64
    /// In hexadecimal, as `sha256sum` prints it.
    let hash: String
  }

  struct Service {
    let service: StoredService
    /// The version of the schema that the rows are of.
    let schema: Int
    /// Whose rows they are.
    var cell = Cell.first
    var tables: [Table] = []
    /// Those of PostgreSQL alone.
    var shared: [Table] = []

    var all: [Table] { tables + shared }

    func file(of table: Table) -> String { "\(service.rawValue).\(table.name).jsonl" }

    var rows: Int64 { all.reduce(0) { $0 + $1.rows } }
    var bytes: Int64 { all.reduce(0) { $0 + $1.bytes } }

    var summary: JSONValue {
      [
        "service": .string(service.rawValue), "schema": .integer(Int64(schema)),
        "tables": .integer(Int64(all.count)),
        "rows": .integer(rows), "bytes": .integer(bytes),
      ]
    }
  }

  static let file = "manifest.json"
  private static let format: Int64 = 1

  var services: [Service] = []

  // MARK: As JSON

  var json: JSONValue {
    [
      "format": .integer(Self.format), "made_at": .string(RFC3339.text(Int64(time(nil)) * 1000)),
      "made_by": .string("latchkey \(Version.current)"),
      "services": .array(
        services.map { service in
          [
            "service": .string(service.service.rawValue), "schema": .integer(Int64(service.schema)),
            "cell": .integer(Int64(service.cell.number)),
            "tables": .array(service.tables.map { Self.json($0, file: service.file(of: $0)) }),
            "shared": .array(service.shared.map { Self.json($0, file: service.file(of: $0)) }),
          ]
        }),
    ]
  }

  private static func json(_ table: Table, file: String) -> JSONValue {
    [
      "name": .string(table.name), "file": .string(file), "rows": .integer(table.rows), "bytes": .integer(table.bytes),
      "sha256": .string(table.hash),
      "columns": .array(table.columns.map { ["name": .string($0.name), "type": .string($0.type)] }),
    ]
  }

  init() {}

  /// That of an export in a folder.
  init(reading folder: String) throws(CommandFailure) {
    var file = try InputFile("\(folder)/\(Self.file)")
    let bytes = try file.contents()
    guard let json = try? JSONValue(parsing: bytes), let services = json["services"]?.array else {
      throw CommandFailure(.invalid, "\(folder)/\(Self.file) is not that of an export")
    }
    guard json["format"]?.integer == Self.format else {
      throw CommandFailure(.invalid, "\(folder) has a format that this release does not know")
    }
    for service in services {
      guard let name = service["service"]?.string.flatMap({ StoredService(rawValue: $0) }),
        let schema = service["schema"]?.integer, let tables = service["tables"]?.array?.map({ Self.table($0) }),
        !tables.contains(nil),
        // Exports of before there were any to be exported say none.
        case let shared = (service["shared"].map { $0.array ?? [.null] } ?? []).map({ Self.table($0) }),
        !shared.contains(nil),
        // Exports of before there were cells say none.
        let cell = UInt16(exactly: service["cell"].map { $0.integer ?? -1 } ?? 0)
      else { throw CommandFailure(.invalid, "\(folder)/\(Self.file) is not that of an export") }
      self.services.append(
        Service(
          service: name, schema: Int(schema), cell: Cell(cell), tables: tables.compactMap(\.self),
          shared: shared.compactMap(\.self)))
    }
  }

  private static func table(_ json: JSONValue) -> Table? {
    guard let name = json["name"]?.string, let rows = json["rows"]?.integer, let bytes = json["bytes"]?.integer,
      let hash = json["sha256"]?.string, let columns = json["columns"]?.array,
      // No disk holds more, and sums of such numbers do not overflow.
      (0...1 << 48).contains(rows), (0...1 << 48).contains(bytes)
    else { return nil }
    let known = columns.compactMap { column in
      column["name"]?.string.flatMap { name in
        column["type"]?.string.map { SQLiteTable.Column(name: name, type: $0) }
      }
    }
    return Table(name: name, columns: known, rows: rows, bytes: bytes, hash: hash)
  }
}
