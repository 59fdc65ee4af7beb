import ArgumentParser
import Storage
import StoragePostgreSQL
import StorageSQLite

/// A command that works on what the services store. No service is asked, and none need run.
protocol StorageCommand: AsyncParsableCommand {
  var json: Bool { get }

  func run(_ output: Output) async throws
}

/// One that works on the services' files, on the machine that has them.
protocol DataCommand: StorageCommand {
  var options: DataOptions { get }
}

extension DataCommand {
  var json: Bool { options.json }
}

extension StorageCommand {
  mutating func run() async throws {
    let output = Output(json: json)
    let failure: CommandFailure
    do {
      return try await run(output)
    } catch let error as CommandFailure {
      failure = error
    } catch let error as StorageError {
      failure = CommandFailure(storage: error)
    }
    output.failure(failure.repeating([]))
    throw ExitCode(failure.status.rawValue)
  }
}

extension CommandFailure {
  init(storage error: StorageError) {
    switch error.fault {
    case .unavailable: self.init(.unavailable, error.description)
    // Whatever these commands do may be done once more: what was done is found to be so.
    case .outcomeUnknown: self.init(.unavailable, error.description, hint: "run it again")
    default: self.init(.file, error.description)
    }
  }
}

struct DataOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Where the services keep their data (LATCHKEY_DATA_DIR); else .latchkey.", valueName: "directory"))
  var dataDir: String?

  @Flag(help: "Answer in JSON, for scripts.")
  var json = false

  @OptionGroup var color: ColorOption

  var directory: String { dataDir ?? DeviceOptions.environment("LATCHKEY_DATA_DIR") ?? ".latchkey" }

  /// The services whose databases are there, which are not always all: each may have a machine of its own.
  func services() throws(CommandFailure) -> [StoredService] {
    let found = StoredService.allCases.filter { Folder.holds($0.file, in: directory) }
    guard !found.isEmpty else {
      throw CommandFailure(.file, "\(directory) holds no database of a service", hint: "--data-dir says where they are")
    }
    return found
  }
}

/// A service, by the database that it keeps.
enum StoredService: String, CaseIterable, ExpressibleByArgument {
  case identity
  case qr
  case migrator

  var file: String { "\(rawValue).db" }

  var schema: SQLiteSchema {
    switch self {
    case .identity: .identity
    case .qr: QRSchema.current
    case .migrator: MigrationSchema.schema
    }
  }

  /// Of PostgreSQL, which several instances may share.
  var sharedSchema: PostgreSQLSchema {
    switch self {
    case .identity: .identity
    case .qr: .qr
    case .migrator: .migration
    }
  }
}
