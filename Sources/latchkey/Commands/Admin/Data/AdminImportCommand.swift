import ArgumentParser
import Cryptography
import JSON
import Storage
import StoragePostgreSQL
import StorageSQLite

struct AdminImportCommand: DataCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Make the services' databases from what `latchkey admin export` wrote.",
    discussion: """
      The data directory must hold none of them; a database that holds just what the export says is left as it is, so \
      that an import that was ended goes on when it is started again. Every file is counted and compared with its \
      SHA-256 before it is believed, and what was stored is read again and compared. Start the services afterwards.

      --to stores the rows in PostgreSQL instead, each service's in one transaction, for instances that share them. The \
      services need identity-secret and service-token of the data directory there as well; with signing-keys beside them, \
      the first start takes the keys over.

      What was exported from PostgreSQL goes into a data directory as well, with the policies and guides that held as \
      policies.json and guides.json, which services read there by default, and the signing keys, which identity opens at its \
      first start with the identity-secret of there. Or it goes into another PostgreSQL.
      """,
    examples: [
      "latchkey admin export exported", "latchkey admin import exported --data-dir restored",
      "latchkey admin import exported --to $DATABASE --database-password-file database-password",
    ]
  )

  @OptionGroup var options: DataOptions
  @OptionGroup var target: ImportTarget
  @Argument(help: "The folder that was exported.") var folder: String

  func run(_ output: Output) async throws {
    var manifest = try ExportManifest(reading: folder)
    try target.choose(&manifest, of: folder)
    // Each row is read, and read again from where it was stored.
    let work = ImportProgress(all: 2 * manifest.services.reduce(0) { $0 + $1.rows })
    defer { work.clear() }
    let made: [StoredService]
    var files: [String] = []
    let place: JSONValue.Member
    if let url = try target.url() {
      made = try await store(manifest, at: url, work)
      place = JSONValue.Member("to", .string(url.description))
    } else {
      (made, files) = try await makeFiles(manifest, in: options.directory, work)
      place = JSONValue.Member("data_dir", .string(options.directory))
    }
    work.clear()
    let rows = manifest.services.map { service in
      [
        service.service.rawValue, "\(service.all.count)", "\(service.rows)",
        made.contains(service.service) ? "imported" : "was there",
      ]
    }
    let services = JSONValue.array(
      manifest.services.map { service in
        [
          "service": .string(service.service.rawValue), "tables": .integer(Int64(service.all.count)),
          "rows": .integer(service.rows), "imported": .bool(made.contains(service.service)),
        ]
      })
    let told = files.isEmpty ? "" : " What held for everybody is in \(files.joined(separator: " and "))."
    output.result(
      Output.table(["service", "tables", "rows", ""], rows) + "\nEvery row is as it was exported." + told,
      .object([
        place, JSONValue.Member("services", services),
        JSONValue.Member("files", .array(files.map { .string($0) })),
      ]))
  }

  private func store(
    _ manifest: ExportManifest, at url: PostgreSQLURL, _ work: ImportProgress
  ) async throws -> [StoredService] {
    var made: [StoredService] = []
    for service in manifest.services {
      let isNew = try await PostgreSQLImport(service: service, folder: folder, url: url).run(work)
      if isNew { made.append(service.service) }
    }
    return made
  }

  private func makeFiles(
    _ manifest: ExportManifest, in directory: String, _ work: ImportProgress
  ) async throws -> (made: [StoredService], files: [String]) {
    try Folder.make(directory)
    var (made, files): ([StoredService], [String]) = ([], [])
    for service in manifest.services {
      let path = "\(directory)/\(service.service.file)"
      guard !Folder.exists(path), !Folder.exists("\(path)-wal") else {
        try Self.expectSame(service, at: path, work)
        continue
      }
      try await ServiceImport(service: service, folder: folder, path: "\(path).importing").run(work)
      files += try await SharedFiles(service: service, folder: folder, directory: directory).make()
      made.append(service.service)
    }
    for service in made {
      try Folder.rename("\(directory)/\(service.file).importing", to: "\(directory)/\(service.file)")
    }
    try Folder.synchronize(directory)
    return (made, files)
  }

  private static func expectSame(
    _ service: ExportManifest.Service, at path: String, _ work: ImportProgress
  ) throws {
    let isSame = try ServiceImport.tables(at: path, work) == service.tables
    guard isSame else {
      throw CommandFailure(
        .file, "\(path) is there already, and holds other rows: import goes where there is no database")
    }
    work.skip(service.rows)
  }
}

struct ImportTarget: ParsableArguments {
  @Option(
    help: ArgumentHelp("Store the rows in this PostgreSQL, such as postgresql://USER@HOST/DATABASE.", valueName: "url"))
  var to: String?

  @Option(help: ArgumentHelp("A file with the password for it.", valueName: "file"))
  var databasePasswordFile: String?

  @Option(help: ArgumentHelp("Only this service, such as qr; may be said several times.", valueName: "name"))
  var service: [StoredService] = []

  func validate() throws {
    if databasePasswordFile != nil, to == nil { throw ValidationError("--database-password-file goes with --to") }
  }

  /// Leaves in the manifest what was asked for.
  func choose(_ manifest: inout ExportManifest, of folder: String) throws(CommandFailure) {
    for wanted in service where !manifest.services.contains(where: { $0.service == wanted }) {
      throw CommandFailure(.invalid, "\(folder) holds nothing of \(wanted.rawValue)")
    }
    if !service.isEmpty { manifest.services.removeAll { !service.contains($0.service) } }
  }

  /// Nil where files are to be made.
  func url() throws -> PostgreSQLURL? {
    try to.map { try PostgreSQLURL($0, of: "--to", passwordFile: databasePasswordFile) }
  }
}

extension PostgreSQLURL {
  /// What an option says. The text is not repeated in errors: it may hold a password, which it must not.
  init(_ text: String, of option: String, passwordFile: String?) throws {
    guard let url = try? PostgreSQLURL(text) else {
      throw CommandFailure(.invalid, "\(option) must be postgresql://USER@HOST:PORT/DATABASE")
    }
    guard !url.hasPassword else {
      throw CommandFailure(
        .invalid, "\(option) must not hold a password: --database-password-file names the file that does")
    }
    guard let passwordFile else {
      self = url
      return
    }
    self = url.with(
      password: try PasswordOption.read(passwordFile, "database's password", option: "--database-password-file"))
  }
}
