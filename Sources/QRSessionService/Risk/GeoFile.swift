import Callers
import Cryptography
import Glibc
import LatchkeyModel
import Logging
import ServiceRuntime
import Synchronization

/// The operator's table of places: read at the start, and again on SIGHUP. Nothing is asked of the network.
///
/// A changed file that cannot be used changes nothing. Reading four million ranges takes some seconds and happens on a
/// thread of its own; lookups go on with the old table meanwhile.
package final class GeoFile: Sendable {
  private let paths: [String]
  private let logger: Logger
  private let table: Mutex<GeoTable>

  /// Reads the files. With one that cannot be used the service does not start.
  package init(paths: [String], logger: Logger) throws(ConfigurationError) {
    self.paths = paths
    self.logger = logger
    table = Mutex(try Self.read(paths))
  }

  func place(of address: NetworkAddress) -> Place? {
    table.withLock { $0.place(of: address) }
  }

  /// Reads the files again. Blocks on the disk.
  package func reload() {
    do throws(ConfigurationError) {
      let fresh = try Self.read(paths)
      table.withLock { $0 = fresh }
      logger.notice("the places of networks were read", metadata: ["ranges": "\(fresh.count)"])
    } catch {
      logger.error("the places of networks are not read again", metadata: ["cause": "\(error)"])
    }
  }

  private static func read(_ paths: [String]) throws(ConfigurationError) -> GeoTable {
    var reader = GeoTable.Reader()
    for path in paths { try read(path, into: &reader) }
    do throws(GeoTable.Refusal) {
      return try reader.finish()
    } catch {
      throw .file(path: paths.last ?? "", reason: error.reason)
    }
  }

  private static func read(_ path: String, into reader: inout GeoTable.Reader) throws(ConfigurationError) {
    // The path is copied for the call. O_NONBLOCK: opening a pipe by mistake must not hang the start.
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else { throw .file(path: path, reason: "cannot be opened: \(SystemError.text(errno))") }
    defer { close(file) }
    reader.beginFile()
    var chunk = [UInt8](repeating: 0, count: 1 << 20)
    var rest: [UInt8] = []
    do throws(GeoTable.Refusal) {
      while true {
        // read writes at most `count` bytes into the array.
        let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(file, $0.baseAddress, $0.count) }
        guard count > 0 else {
          guard count == 0 else {
            throw GeoTable.Refusal(line: 0, reason: "cannot be read: \(SystemError.text(errno))")
          }
          if !rest.isEmpty { try reader.take(rest[...]) }
          return
        }
        rest += chunk[..<count]
        var begin = 0
        while let end = rest[begin...].firstIndex(of: UInt8(ascii: "\n")) {
          try reader.take(rest[begin..<end])
          begin = end + 1
        }
        rest.removeFirst(begin)
        guard rest.count <= Limits.geoLineBytes else {
          throw GeoTable.Refusal(line: 0, reason: "has a line of more than \(Limits.geoLineBytes) bytes")
        }
      }
    } catch {
      throw .file(path: path, reason: error.line > 0 ? "line \(error.line) \(error.reason)" : error.reason)
    }
  }
}
