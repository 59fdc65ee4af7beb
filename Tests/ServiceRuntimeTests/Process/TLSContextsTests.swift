import Logging
import Testing

@testable import ServiceRuntime
@testable import TLS

@Suite("TLS files")
struct TLSContextsTests {
  let fixture: TLSFixture
  let contexts: TLSContexts
  let start = ContinuousClock.now

  init() throws {
    fixture = try TLSFixture()
    let service = ServiceDescription(name: "latchkey-test", port: 7499, managementPort: 7599)
    let invocation = try ServiceInvocation(
      service,
      arguments: ["--tls-certificate-file", fixture.certificate, "--tls-key-file", fixture.key],
      environment: [:]
    )
    guard case .run(let configuration) = invocation else { throw TLSFixture.Failure() }
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    contexts = try TLSContexts(TLSFiles(configuration), logger: logger, now: start)
  }

  private var context: OpenSSLContext? { contexts.server?.current }

  @Test("files that change are read once they have stopped changing")
  func settling() throws {
    let first = try #require(context)
    contexts.look(now: start)
    #expect(context === first)
    try fixture.renew()
    contexts.look(now: start)
    #expect(context === first)
    // They changed again between two looks.
    try fixture.renew()
    contexts.look(now: start)
    #expect(context === first)
    contexts.look(now: start)
    let second = try #require(context)
    #expect(second !== first)
    contexts.look(now: start)
    #expect(context === second)
  }

  @Test("files that do not belong together are tried once, and change nothing")
  func mismatch() throws {
    let first = try #require(context)
    let other = try TLSFixture()
    try fixture.take(certificate: other.certificate)
    contexts.look(now: start)
    contexts.look(now: start)
    #expect(context === first)
    try fixture.take(key: other.key)
    contexts.look(now: start)
    contexts.look(now: start)
    #expect(context !== first)
  }

  @Test("ticket keys are made anew every day")
  func ticketKeys() throws {
    let first = try #require(context)
    contexts.look(now: start + .seconds(86_399))
    #expect(context === first)
    contexts.look(now: start + .seconds(86_400))
    let second = try #require(context)
    #expect(second !== first)
    contexts.look(now: start + .seconds(2 * 86_400 - 1))
    #expect(context === second)
    contexts.look(now: start + .seconds(2 * 86_400))
    #expect(context !== second)
  }
}
