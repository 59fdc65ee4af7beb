import ArgumentParser
import Cryptography
import StorageSQLite

struct AdminExportCommand: DataCommand {
  static let configuration = CommandConfiguration(
    commandName: "export",
    abstract: "Write all that the services store as lines of JSON, a file for each table.",
    discussion: """
      Run it where the data directory is; the services may go on meanwhile. Each service's rows are those of one moment. \
      manifest.json says how many rows each file has, and the SHA-256 of it; the folder has its name once all of it is \
      there. Keys are no part of it: whoever moves an installation takes identity-secret, service-token and signing-keys \
      along. What it writes is as confidential as the database.
      """,
    examples: ["latchkey admin export exported"]
  )

  @OptionGroup var options: DataOptions
  @Argument(help: "The folder to make.") var folder: String

  func run(_ output: Output) throws {
    let services = try options.services()
    let target = try NewFolder(folder)
    var snapshots: [(service: StoredService, snapshot: SQLiteSnapshot)] = []
    // All at once, before the first is read.
    for service in services {
      snapshots.append((service, try SQLiteSnapshot(path: "\(options.directory)/\(service.file)")))
    }
    var all: Int64 = 0
    for (_, snapshot) in snapshots { for table in snapshot.tables { all += try snapshot.rowCount(of: table) } }
    var progress = ProgressBar()
    defer { progress.clear() }
    var done: Int64 = 0
    var manifest = ExportManifest()
    for (service, snapshot) in snapshots {
      var written = ExportManifest.Service(service: service, schema: snapshot.version, cell: snapshot.cell)
      for table in snapshot.tables {
        let reading = TableReading(snapshot: snapshot, table: table) {
          done += 1
          if done % 256 == 0 { progress.show(Double(done) / Double(max(1, all)), done, "rows") }
        }
        let file = try PrivateFile("\(target.path)/\(service.rawValue).\(table.name).jsonl")
        written.tables.append(try reading.run(into: file))
      }
      manifest.services.append(written)
    }
    let file = try PrivateFile("\(target.path)/\(ExportManifest.file)")
    try file.write(manifest.json.encoded() + [UInt8(ascii: "\n")])
    try file.finish()
    try target.finish()
    progress.clear()
    let rows = manifest.services.map { [$0.service.rawValue, "\($0.tables.count)", "\($0.rows)", "\($0.bytes)"] }
    output.result(
      Output.table(["service", "tables", "rows", "bytes"], rows)
        + "\nExported to \(folder). The keys go with you: identity-secret, service-token, signing-keys.",
      ["folder": .string(folder), "services": .array(manifest.services.map(\.summary))])
  }
}
