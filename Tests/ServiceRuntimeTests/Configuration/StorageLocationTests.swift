import Cryptography
import TestSupport
import Testing

@testable import ServiceRuntime

@Suite("Where rows are")
struct StorageLocationTests {
  private let folder: TemporaryFolder

  init() throws {
    folder = try TemporaryFolder()
  }

  private func load(_ arguments: String...) throws -> ServiceConfiguration {
    let arguments = ["--data-dir", folder.path] + arguments
    guard
      case .run(let configuration) = try ServiceInvocation(
        ConfigurationTests.service, arguments: arguments, environment: [:])
    else { throw ConfigurationError.conflict("asked to run, it shows something") }
    return configuration
  }

  private func reason(_ arguments: String...) -> String? {
    do {
      let all = ["--data-dir", folder.path] + arguments
      guard
        case .run(let configuration) = try ServiceInvocation(
          ConfigurationTests.service, arguments: all, environment: [:])
      else { return nil }
      _ = try configuration.storage(file: "qr.db")
      return nil
    } catch {
      return "\(error)"
    }
  }

  @Test("by default they are in the service's own file in the data directory; a path says another")
  func files() throws {
    guard case .sqlite(let path) = try load().storage(file: "qr.db") else {
      Issue.record("no file")
      return
    }
    #expect(path == folder.file("qr.db"))
    let configuration = try load("--storage-url", "sqlite:/srv/codes.db")
    guard case .sqlite(let other) = try configuration.storage(file: "qr.db") else {
      Issue.record("no file")
      return
    }
    #expect(other == "/srv/codes.db")
    #expect(!configuration.sharesStorage)
  }

  @Test("a PostgreSQL takes its password from a file that only its owner may read")
  func passwordFile() throws {
    let url = "postgresql://latchkey@one:5433,two/rows"
    let file = folder.file("password")
    try SecretFile.create(file, Array("s3cret\n".utf8))
    let configuration = try load("--storage-url", url, "--storage-password-file", file)
    #expect(configuration.sharesStorage)
    guard case .postgresql(let found) = try configuration.storage(file: "qr.db") else {
      Issue.record("no PostgreSQL")
      return
    }
    #expect(found.hasPassword)
    #expect("\(found)" == url)
    #expect(reason("--storage-url", url, "--storage-password-file", folder.file("none"))?.contains("none") == true)
  }

  @Test(
    "what is no place for rows is refused, without being repeated",
    arguments: [
      "qr.db", "sqlite:", "sqlite://qr.db", "mysql://u@h/d", "postgresql://u:s3cret@h/d", "postgresql://h/d?s3cret=1",
    ])
  func refused(_ url: String) {
    let reason = reason("--storage-url", url)
    #expect(reason?.hasPrefix("storage.url: must ") == true)
    #expect(reason?.contains("s3cret") == false)
  }

  @Test("a password without a PostgreSQL is a mistake")
  func passwordAlone() {
    #expect(reason("--storage-password-file", "/x")?.contains("storage.passwordFile") == true)
  }

  @Test("a secret that is not there may be made over a file, and is missed over PostgreSQL")
  func secrets() throws {
    let path = folder.file("service-token")
    try load().requireMounted(path)
    let shared = try load("--storage-url", "postgresql://u@h/d")
    #expect(throws: ConfigurationError.self) { try shared.requireMounted(path) }
    try SecretFile.create(path, [1])
    try shared.requireMounted(path)
  }
}
