import ArgumentParser
import Cryptography
import StorageSQLite

struct AdminBackupCommand: DataCommand {
  static let configuration = CommandConfiguration(
    commandName: "backup",
    abstract: "Copy the data directory, databases and keys, while the services run.",
    discussion: """
      Each database is copied as of one moment, through SQLite, and checked; all other files as they are. The folder has \
      its name once all of it is there. To restore, start the services with it as their data directory. It is as \
      confidential as the original.
      """,
    examples: ["latchkey admin backup backup"]
  )

  @OptionGroup var options: DataOptions
  @Argument(help: "The folder to make.") var folder: String

  func run(_ output: Output) throws {
    let services = try options.services()
    let target = try NewFolder(folder)
    var progress = ProgressBar()
    defer { progress.clear() }
    // All at once, before the first is copied.
    let snapshots = try services.map { try SQLiteSnapshot(path: "\(options.directory)/\($0.file)") }
    for (service, snapshot) in zip(services, snapshots) {
      let path = "\(target.path)/\(service.file)"
      try snapshot.copy(to: path) { done, all in
        progress.show(Double(done) / Double(max(1, all)), done, "pages of \(service.rawValue)")
      }
      try Folder.synchronize(path)
    }
    let files = try Self.copyFiles(from: options.directory, to: target.path)
    let sizes = services.map { InputFile.size("\(target.path)/\($0.file)") ?? 0 }
    try target.finish()
    progress.clear()
    let rows = zip(services, sizes).map { [$0.rawValue, "\($1)"] }
    output.result(
      Output.table(["database", "bytes"], rows) + "\nBacked up to \(folder), with \(files) further files.",
      [
        "folder": .string(folder), "files": .integer(Int64(files)),
        "services": .array(
          zip(services, sizes).map { ["service": .string($0.rawValue), "bytes": .integer($1)] }),
      ])
  }

  /// All but the databases, which change while they are read. Returns how many files there are.
  private static func copyFiles(from source: String, to target: String) throws(CommandFailure) -> Int {
    var count = 0
    for (name, isFolder) in try Folder.contents(source) {
      if StoredService.allCases.contains(where: { name.hasPrefix($0.file) }) { continue }
      if isFolder {
        try Folder.make("\(target)/\(name)")
        count += try copyFiles(from: "\(source)/\(name)", to: "\(target)/\(name)")
        try Folder.synchronize("\(target)/\(name)")
      } else {
        var read = try InputFile("\(source)/\(name)")
        let copy = try PrivateFile("\(target)/\(name)")
        while let bytes = try read.chunk() { try copy.write(bytes) }
        try copy.finish()
        count += 1
      }
    }
    return count
  }
}
