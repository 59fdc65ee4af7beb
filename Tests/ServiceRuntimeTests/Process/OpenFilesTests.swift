import Glibc
import TestSupport
import Testing
import TransportServer

@testable import ServiceRuntime

@Suite("Open files") struct OpenFilesTests {
  /// Places in the kernel's table of this process's files.
  private var tableSize: Int? {
    let status = String(decoding: FileLook.contents(of: "/proc/self/status"), as: UTF8.self)
    let line = status.split(separator: "\n").first { $0.hasPrefix("FDSize:") }
    return line?.split(separator: "\t").last.flatMap { Int($0) }
  }

  @Test("The table of files is as large as the connections need before they come, and no file stays open for it")
  func makesRoom() throws {
    // What the test's own process may have.
    let wanted = min(OpenFiles.raiseLimit(), 4 * (try #require(tableSize)))
    OpenFiles.makeRoom(for: wanted)
    #expect(try #require(tableSize) >= wanted)
    #expect(fcntl(CInt(wanted - 1), F_GETFD) == -1)
    // More than there may be changes nothing.
    OpenFiles.makeRoom(for: .max)
    #expect(try #require(tableSize) < 1 << 30)
  }

  @Test("There are as many connections as wanted, or as the files allow beside what else needs them")
  func connections() {
    #expect(OpenFiles.connections(wanted: 1000, limit: 10_000) == (1000, 1250))
    #expect(OpenFiles.connections(wanted: 1000, limit: 1000) == (1000 - 125 - Limits.reservedFiles, 125))
    // Of very few files a quarter are for connections.
    #expect(OpenFiles.connections(wanted: 1000, limit: 256) == (32, 32))
    #expect(OpenFiles.connections(wanted: 1000, limit: 1) == (1, 0))
    #expect(OpenFiles.connections(wanted: 1_000_000, limit: 100_000).arriving == ServerBudget.Bounds().arrivals)
    // Or accepting would pause before somebody has to make room.
    #expect(Limits.reservedFiles > RPCServer.spareFiles + Limits.managementConnections)
  }
}
