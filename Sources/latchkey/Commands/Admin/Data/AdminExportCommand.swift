import ArgumentParser
import Cryptography
import Storage
import StoragePostgreSQL
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

      --from reads the rows of PostgreSQL instead, and writes them as a data directory has them. The signing keys, sealed by \
      identity-secret, the policies and the guides are part of it there. Stop the services before you move them.
      """,
    examples: [
      "latchkey admin export exported",
      "latchkey admin export shared --from $DATABASE --database-password-file database-password",
    ]
  )

  @OptionGroup var options: DataOptions
  @OptionGroup var source: ExportSource
  @Argument(help: "The folder to make.") var folder: String

  func run(_ output: Output) async throws {
    let target: NewFolder
    let manifest: ExportManifest
    if let url = try source.url() {
      let rows = try await PostgreSQLExport(source.service, at: url)
      target = try NewFolder(folder)
      manifest = try await rows.run(into: target.path)
    } else {
      let services = try source.chosen(of: try options.services(), in: options.directory)
      target = try NewFolder(folder)
      manifest = try exportFiles(services, into: target.path)
    }
    let file = try PrivateFile("\(target.path)/\(ExportManifest.file)")
    try file.write(manifest.json.encoded() + [UInt8(ascii: "\n")])
    try file.finish()
    try target.finish()
    let rows = manifest.services.map { [$0.service.rawValue, "\($0.all.count)", "\($0.rows)", "\($0.bytes)"] }
    let keys =
      source.from == nil
      ? "The keys go with you: identity-secret, service-token, signing-keys."
      : "identity-secret and service-token go with you; the signing keys are in it."
    output.result(
      Output.table(["service", "tables", "rows", "bytes"], rows) + "\nExported to \(folder). \(keys)",
      ["folder": .string(folder), "services": .array(manifest.services.map(\.summary))])
  }

  private func exportFiles(_ services: [StoredService], into folder: String) throws -> ExportManifest {
    var snapshots: [(service: StoredService, snapshot: SQLiteSnapshot)] = []
    // All at once, before the first is read.
    for service in services {
      snapshots.append((service, try SQLiteSnapshot(path: "\(options.directory)/\(service.file)")))
    }
    var all: Int64 = 0
    for (_, snapshot) in snapshots { for table in snapshot.tables { all += try snapshot.rowCount(of: table) } }
    let progress = ExportProgress(all: all)
    defer { progress.clear() }
    var manifest = ExportManifest()
    for (service, snapshot) in snapshots {
      var written = ExportManifest.Service(service: service, schema: snapshot.version, cell: snapshot.cell)
      for table in snapshot.tables {
        let reading = TableReading(snapshot: snapshot, table: table) { progress.step() }
        let file = try PrivateFile("\(folder)/\(service.rawValue).\(table.name).jsonl")
        written.tables.append(try reading.run(into: file))
      }
      manifest.services.append(written)
    }
    return manifest
  }
}

struct ExportSource: ParsableArguments {
  @Option(
    help: ArgumentHelp("Read the rows of this PostgreSQL, such as postgresql://USER@HOST/DATABASE.", valueName: "url"))
  var from: String?

  @Option(help: ArgumentHelp("A file with the password for it.", valueName: "file"))
  var databasePasswordFile: String?

  @Option(help: ArgumentHelp("Only this service, such as qr; may be said several times.", valueName: "name"))
  var service: [StoredService] = []

  func validate() throws {
    if databasePasswordFile != nil, from == nil { throw ValidationError("--database-password-file goes with --from") }
  }

  /// Nil where files are to be read.
  func url() throws -> PostgreSQLURL? {
    try from.map { try PostgreSQLURL($0, of: "--from", passwordFile: databasePasswordFile) }
  }

  /// What was asked for of what is there.
  func chosen(of found: [StoredService], in directory: String) throws(CommandFailure) -> [StoredService] {
    for wanted in service where !found.contains(wanted) {
      throw CommandFailure(.file, "\(directory) holds no database of \(wanted.rawValue)")
    }
    return service.isEmpty ? found : found.filter { service.contains($0) }
  }
}

/// How far an export is.
final class ExportProgress {
  private let all: Int64
  private var done: Int64 = 0
  private var bar = ProgressBar()

  init(all: Int64) {
    self.all = max(1, all)
  }

  func step() {
    done += 1
    if done % 256 == 0 { bar.show(Double(done) / Double(all), done, "rows") }
  }

  func clear() { bar.clear() }
}
