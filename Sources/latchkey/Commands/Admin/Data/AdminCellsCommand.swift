import ArgumentParser
import Cryptography
import LatchkeyModel
import Storage
import StoragePostgreSQL
import StorageSQLite

struct AdminCellsCommand: DataCommand {
  static let configuration = CommandConfiguration(
    commandName: "cells",
    abstract: "Show which cell each service's database belongs to.",
    discussion: """
      A database belongs to the cell that its service had when it was made, and a service that is told another one does \
      not start over it. Nothing is changed, and no service is asked.
      """,
    examples: [
      "latchkey admin cells", "latchkey admin cells --at $DATABASE --database-password-file database-password",
    ]
  )

  @OptionGroup var options: DataOptions
  @Option(
    help: ArgumentHelp("Look into this PostgreSQL, such as postgresql://USER@HOST/DATABASE.", valueName: "url"))
  var at: String?
  @Option(help: ArgumentHelp("The file with its user's password.", valueName: "file"))
  var databasePasswordFile: String?

  func validate() throws {
    if databasePasswordFile != nil, at == nil { throw ValidationError("--database-password-file goes with --at") }
  }

  func run(_ output: Output) async throws {
    let place: String
    let found: [(service: StoredService, cell: Cell)]
    if let at {
      let url = try PostgreSQLURL(at, of: "--at", passwordFile: databasePasswordFile)
      place = url.description
      found = try await Self.cells(at: url)
    } else {
      place = options.directory
      found = try options.services().map { service throws(StorageError) in
        (service, try SQLiteSnapshot(path: "\(options.directory)/\(service.file)").cell)
      }
    }
    output.result(
      Output.table(["service", "cell"], found.map { [$0.service.rawValue, "\($0.cell)"] }),
      [
        "place": .string(place),
        "services": .array(
          found.map { ["service": .string($0.service.rawValue), "cell": .integer(Int64($0.cell.number))] }),
      ])
  }

  private static func cells(at url: PostgreSQLURL) async throws -> [(service: StoredService, cell: Cell)] {
    var found: [(service: StoredService, cell: Cell)] = []
    for service in StoredService.allCases {
      if let cell = try await PostgreSQLDatabase.cell(of: service.sharedSchema, at: url) {
        found.append((service, cell))
      }
    }
    guard !found.isEmpty else { throw CommandFailure(.file, "\(url) holds no tables of a service") }
    return found
  }
}
