import ArgumentParser
import Cryptography
import Storage
import StorageSQLite

struct AdminImportCommand: DataCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Make the services' databases from what `latchkey admin export` wrote.",
    discussion: """
      The data directory must hold none of them; a database that holds just what the export says is left as it is, so \
      that an import that was ended goes on when it is started again. Every file is counted and compared with its \
      SHA-256 before it is believed, and what was stored is read again and compared. Start the services afterwards.
      """,
    examples: ["latchkey admin export exported", "latchkey admin import exported --data-dir restored"]
  )

  @OptionGroup var options: DataOptions
  @Argument(help: "The folder that was exported.") var folder: String

  func run(_ output: Output) throws {
    let manifest = try ExportManifest(reading: folder)
    let directory = options.directory
    try Folder.make(directory)
    // Each row is read, and read again from where it was stored.
    var work = ImportProgress(all: 2 * manifest.services.reduce(0) { $0 + $1.rows })
    defer { work.clear() }
    var made: [StoredService] = []
    for service in manifest.services {
      let path = "\(directory)/\(service.service.file)"
      guard !Folder.exists(path), !Folder.exists("\(path)-wal") else {
        try Self.expectSame(service, at: path, &work)
        continue
      }
      let copy = ServiceImport(service: service, folder: folder, path: "\(path).importing")
      try copy.run(&work)
      made.append(service.service)
    }
    for service in made {
      try Folder.rename("\(directory)/\(service.file).importing", to: "\(directory)/\(service.file)")
    }
    try Folder.synchronize(directory)
    work.clear()
    let rows = manifest.services.map { service in
      [
        service.service.rawValue, "\(service.tables.count)", "\(service.rows)",
        made.contains(service.service) ? "imported" : "was there",
      ]
    }
    output.result(
      Output.table(["service", "tables", "rows", ""], rows) + "\nEvery row is as it was exported.",
      [
        "data_dir": .string(directory),
        "services": .array(
          manifest.services.map { service in
            [
              "service": .string(service.service.rawValue), "tables": .integer(Int64(service.tables.count)),
              "rows": .integer(service.rows), "imported": .bool(made.contains(service.service)),
            ]
          }),
      ])
  }

  private static func expectSame(
    _ service: ExportManifest.Service, at path: String, _ work: inout ImportProgress
  ) throws {
    let isSame = try ServiceImport.tables(at: path, &work) == service.tables
    guard isSame else {
      throw CommandFailure(
        .file, "\(path) is there already, and holds other rows: import goes where there is no database")
    }
    work.skip(service.rows)
  }
}
