import Cryptography
import Domain
import Glibc
import LatchkeyModel
import Logging
import Storage
import StoragePostgreSQL
import Synchronization
import TestSupport
import Testing

@testable import IdentityService

/// Appends, and does not commit before the test says so.
private struct HeldAppend: IdentityOperation {
  final class Flag: Sendable {
    private let state = Mutex(false)

    var isSet: Bool { state.withLock { $0 } }
    func set() { state.withLock { $0 = true } }
  }

  static let name = "append slowly"

  let chain: AuditChain
  let note: AuditNote
  let hasAppended = Flag()
  let mayEnd = Flag()

  func run(in rows: some IdentityTransaction) async throws(StorageError) {
    try await chain.append([note], to: rows.audit)
    hasAppended.set()
    // The thread is the connection's own.
    while !mayEnd.isSet { usleep(1000) }
  }
}

@Suite("C18: the audit log of several instances")
struct AuditChainsTests {
  /// Instances over one database with a connection each, and somebody who has the database and no key.
  private struct Instances {
    let clock = ManualClock()
    let databases: [PostgreSQLDatabase]
    let thief: PostgreSQLDatabase
    let domains: [IdentityDomain]
    let sealings: [AuditSealing]
    let chain = AuditChain { HMACSHA256.authenticate($0, key: [UInt8](repeating: 1, count: 32)) }

    init(_ count: Int) async throws {
      let url = try PostgreSQLURL(try PostgreSQLServer.shared().database())
      var databases: [PostgreSQLDatabase] = []
      for _ in 0...count {
        databases.append(try await PostgreSQLDatabase.open(url: url, schema: .identity, connections: 1))
      }
      thief = databases.removeLast()
      self.databases = databases
      let (chain, clock) = (chain, clock)
      domains = databases.map { IdentityDomain(PostgreSQLIdentityStorage($0), audit: chain) }
      let logger = Logger(label: "audit", factory: { _ in SwiftLogNoOpLogHandler() })
      let surroundings = Surroundings(clock: clock, random: RandomSource { SecureRandom.bytes($0) }, logger: logger)
      sealings = domains.map { AuditSealing($0, surroundings) }
    }

    func record(_ detail: String, by instance: Int) async throws {
      try await domains[instance].perform(
        RecordEvents([AuditNote(.callRefused, at: clock.now(), address: "192.0.2.1", detail: detail)]))
    }

    func verify() async throws -> AuditVerification.Finding {
      try #require(try await AuditVerification(domains[domains.count - 1], chain).run())
    }

    func tamper(_ sql: String) async throws {
      try await thief.write { db throws(StorageError) in _ = try await db.execute(sql) }
    }

    func events() async throws -> [AuditEvent] { try await domains[0].look(ListEvents(after: 0, limit: 1000)) }

    func close() async {
      for database in databases + [thief] { await database.close() }
    }
  }

  @Test("Instances append beside each other and none waits; each has its chain, and all verify together")
  func together() async throws {
    let instances = try await Instances(3)
    let nothing = AuditVerification.Finding(isIntact: true, verified: 0, head: AuditChain.origin)
    #expect(try await instances.verify() == nothing)
    for round in 0..<5 {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<3 { group.addTask { try await instances.record("\(round)", by: number) } }
        try await group.waitForAll()
      }
    }
    // One that is in the midst of it holds up nobody.
    let held = HeldAppend(
      chain: instances.chain, note: AuditNote(.callRefused, at: instances.clock.now(), detail: "held"))
    async let appended: Void = PostgreSQLIdentityStorage(instances.databases[0]).write(held)
    while !held.hasAppended.isSet { try await Task.sleep(for: .milliseconds(1)) }
    try await instances.record("beside", by: 1)
    held.mayEnd.set()
    try await appended
    let events = try await instances.events()
    #expect(Set(events.map(\.chain)).count == 3)
    let found = try await instances.verify()
    #expect(found.isIntact && found.verified == events.last?.sequence && found.head == events.last?.link)
    await instances.close()
  }

  @Test("The ends are recorded by every instance, and again only when there is something new")
  func seals() async throws {
    let instances = try await Instances(2)
    try await instances.record("one", by: 0)
    try await instances.record("two", by: 1)
    func seals() async throws -> [AuditSeal] {
      try await instances.events().filter { $0.note.kind == .logSealed }.compactMap { AuditSeal($0.note.detail) }
    }
    let ends = try await instances.events().map { AuditEnd($0) }
    for _ in 0..<6 {
      for sealing in instances.sealings { await sealing.seal() }
    }
    #expect(try await seals().map { Set($0.ends) } == [Set(ends), Set(ends)])
    try await instances.record("three", by: 1)
    for _ in 0..<6 { await instances.sealings[0].seal() }
    #expect(try await seals().last?.ends.map(\.chain) == [ends[1].chain])
    #expect(try await seals().count == 3)
    #expect(try await instances.verify().isIntact)
    await instances.close()
  }

  /// What somebody does who has the database alone, to the chain of an instance that stopped.
  enum Theft: String, CaseIterable {
    case lastEvent = "DELETE FROM audit_events WHERE chain = $chain AND seq = 3"
    case end = "DELETE FROM audit_events WHERE chain = $chain AND seq > 1"
    case chain = "DELETE FROM audit_events WHERE chain = $chain"
    case event = "DELETE FROM audit_events WHERE chain = $chain AND seq = 2"
    case detail = "UPDATE audit_events SET detail = 'nothing' WHERE chain = $chain AND seq = 3"
    case address = "UPDATE audit_events SET address = '' WHERE chain = $chain AND seq = 1"
    case link = "UPDATE audit_events SET link = decode(repeat('00', 32), 'hex') WHERE chain = $chain AND seq = 3"
    case name = "UPDATE audit_events SET chain = chain + 1 WHERE chain = $chain"
    case beginning = """
      INSERT INTO audit_checkpoints (chain, seq, link, seal, at)
      SELECT chain, seq, link, link, at FROM audit_events WHERE chain = $chain AND seq = 3
      """
    case forgotten = """
      WITH gone AS (DELETE FROM audit_events WHERE chain = $chain RETURNING *)
      INSERT INTO audit_checkpoints (chain, seq, link, seal, at) SELECT chain, seq, link, link, at FROM gone WHERE seq = 3
      """
  }

  @Test("What was changed or removed is found, at the end of a chain that stopped as well", arguments: Theft.allCases)
  func theft(_ theft: Theft) async throws {
    let instances = try await Instances(2)
    for number in 0..<3 {
      try await instances.record("gone \(number)", by: 0)
      try await instances.record("there \(number)", by: 1)
    }
    let chain = try #require(try await instances.events().first { $0.note.detail == "gone 0" }?.chain)
    // The instance dies, and the other one records where it ended.
    await instances.databases[0].close()
    await instances.sealings[1].seal()
    try await instances.record("later", by: 1)
    #expect(try await instances.verify().isIntact)
    try await instances.tamper(theft.rawValue.replacing("$chain", with: "\(chain)"))
    let found = try await instances.verify()
    #expect(!found.isIntact && found.chain != nil)
    await instances.close()
  }

  @Test("What the retention forgets of several chains is no theft, also of one that is gone as a whole")
  func trimmed() async throws {
    let instances = try await Instances(2)
    for number in 0..<3 { try await instances.record("old \(number)", by: number % 2) }
    await instances.sealings[1].seal()
    await instances.databases[0].close()
    instances.clock.advance(by: .seconds(60))
    try await instances.record("new", by: 1)
    func trim() async throws -> Int {
      try await instances.domains[1].perform(
        TrimAuditLog(before: instances.clock.now(), limit: 3, at: instances.clock.now(), instances.chain))
    }
    // The seal is still there, and speaks of what is forgotten.
    #expect(try await trim() == 3)
    #expect(try await instances.domains[1].look(FindCheckpoints()).count == 2)
    #expect(try await instances.verify().isIntact)
    #expect(try await trim() == 1)
    #expect(try await instances.verify().isIntact)
    try await instances.domains[1].perform(ForgetChains(before: instances.clock.now() + .seconds(1)))
    #expect(try await instances.domains[1].look(FindCheckpoints()).count == 1)
    #expect(try await instances.verify().isIntact)
    try await instances.record("newest", by: 1)
    let last = try await instances.domains[1].look(ListEvents(after: 0, limit: 9)).last
    #expect(last?.number == 4 && last?.note.detail == "newest")
    #expect(try await instances.verify().isIntact)
    await instances.close()
  }
}
