import Cryptography
import Glibc
import StorageSQLite

/// What instances over PostgreSQL share in rows, as the files that a single one over a data directory has.
struct SharedFiles {
  let service: ExportManifest.Service
  let folder: String
  let directory: String

  /// Which identity opens with its secret at its next start.
  private static let keys = "signing-keys.sealed"
  private static let documents = ["policies": "policies.json", "guides": "guides.json"]

  /// Makes them. Returns the names of those that operators write.
  func make() async throws -> [String] {
    var made: [String] = []
    for table in service.shared {
      let rows = ExportedRows(service: service, table: table, folder: folder)
      switch table.name {
      case "signing_keys": try await makeKeys(rows)
      case "documents": made += try await makeDocuments(rows)
      default: throw CommandFailure(.invalid, "\(folder) has a table \(table.name) that this release does not know")
      }
    }
    return made
  }

  private func makeKeys(_ rows: ExportedRows) async throws {
    var lines: [UInt8] = []
    try await rows.forEach { _, line in lines += line }
    if !lines.isEmpty { try make(Self.keys, lines) }
  }

  private func makeDocuments(_ rows: ExportedRows) async throws -> [String] {
    var found: [(name: String, contents: [UInt8])] = []
    let (name, contents) = (rows.table.place(of: "name"), rows.table.place(of: "contents"))
    try await rows.forEach { values, _ in
      guard let name, let contents, case .text(let document) = values[name] else {
        throw CommandFailure(.invalid, "\(folder) has another documents than this release")
      }
      // Of what held before only the hash is known.
      guard case .blob(let bytes) = values[contents] else { return }
      guard let file = Self.documents[document] else {
        throw CommandFailure(.invalid, "\(folder) has a document \(document) that this release does not know")
      }
      found.append((file, bytes))
    }
    for (name, contents) in found { try make(name, contents) }
    return found.map(\.name)
  }

  /// One that an import made that was ended is the same, and stays.
  private func make(_ name: String, _ bytes: [UInt8]) throws {
    let path = "\(directory)/\(name)"
    do throws(SecretFileError) {
      try SecretFile.create(path, bytes)
    } catch {
      guard case .system(_, _, EEXIST) = error else { throw CommandFailure(.file, "\(error)") }
      var there = try InputFile(path)
      guard try there.contents() == bytes else {
        throw CommandFailure(.file, "\(path) is there already, and holds something else: import goes where it is not")
      }
    }
  }
}

extension ExportManifest.Table {
  fileprivate func place(of column: String) -> Int? { columns.firstIndex { $0.name == column } }
}
