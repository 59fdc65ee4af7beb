import Cryptography
import LatchkeyModel
import Storage
import StoragePostgreSQL
import TestSupport
import Testing

@testable import IdentityService

/// Instances with the same rows and the same secret, each with a ring of its own. What an instance looks for by itself is
/// looked for here when the test says so.
@Suite("C15: signing keys that several instances have")
struct SharedKeysTests {
  private let url: String
  private let server: PostgreSQLServer
  private let folder: TemporaryFolder
  private static let policy = SigningKeyRing.Policy(tokenLifetime: .seconds(960))

  init() throws {
    server = try .shared()
    url = try server.database()
    folder = try TemporaryFolder()
  }

  private func open() async throws -> PostgreSQLDatabase {
    try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: .identity, connections: 2)
  }

  private func query(_ sql: String) async throws -> String {
    try await open().read { db throws(StorageError) in try await db.first(sql) { $0.text(0) } ?? "" }
  }

  private func store(secret: UInt8 = 1) async throws -> SealedKeyStore {
    let database = try await open()
    let rows = try #require(PostgreSQLIdentityStorage(database).sharedSigningKeys)
    return SealedKeyStore(rows, secret: RedactedSecret([UInt8](repeating: secret, count: 32)), membership: nil)
  }

  private func ring(
    secret: UInt8 = 1, _ policy: SigningKeyRing.Policy = policy, clock: any WallClock = SystemClock()
  ) async throws -> SigningKeyRing {
    try await SigningKeyRing(store(secret: secret), policy: policy, clock: clock)
  }

  private func ids(_ ring: SigningKeyRing) -> [String] { ring.published?.keys.map(\.id) ?? [] }

  /// As if this time had passed since the keys were made. Rows are sealed with their times, so they are sealed anew.
  private func age(_ store: SealedKeyStore, by duration: Duration) async throws {
    _ = try await store.change { keys, _ in
      SigningKeyChange(
        new: keys.map { SigningKey($0.key, notBefore: $0.entry.notBefore - duration) }, gone: keys.map(\.entry))
    }
  }

  @Test("C15: instances that start together make one key")
  func start() async throws {
    let stores = [try await store(), try await store()]
    let found = try await withThrowingTaskGroup(of: [String].self) { group in
      for index in 0..<20 {
        group.addTask {
          ids(try await SigningKeyRing(stores[index % 2], policy: Self.policy, clock: SystemClock()))
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(Set(found).count == 1 && found[0].count == 1)
    #expect(try await query("SELECT count(*)::text FROM signing_keys") == "1")
  }

  @Test("C15: keys of a folder are taken over once, by whichever instance starts first")
  func folderOfKeys() async throws {
    let (one, other) = (
      SigningKeyDirectory(path: "\(folder.path)/one"), SigningKeyDirectory(path: "\(folder.path)/other")
    )
    let first = try one.create(notBefore: SystemClock().now())
    _ = try other.create(notBefore: SystemClock().now())
    let old = SigningKeyDirectory(path: "\(folder.path)/old")
    _ = try old.create(notBefore: SystemClock().now() - .seconds(2 * 86_400 + 60))
    // Whoever found a folder that was left from before signs nothing with it.
    #expect(try await !store().adopt(old, period: .seconds(86_400)))
    #expect(try await query("SELECT count(*)::text FROM signing_keys") == "0")
    #expect(try await store().adopt(one, period: .seconds(86_400)))
    try await store().adopt(other, period: .seconds(86_400))
    try await store().adopt(SigningKeyDirectory(path: "\(folder.path)/none"), period: .seconds(86_400))
    #expect(ids(try await ring()) == [first.entry.id])
    #expect(FileLook.mode(of: "\(folder.path)/none") == 0)
  }

  @Test("C15: of rotations at once one counts, and every instance publishes it and what signs until then")
  func rotations() async throws {
    let (one, other) = (try await ring(), try await ring())
    let before = ids(one)
    let made = try await withThrowingTaskGroup(of: String.self) { group in
      for index in 0..<20 { group.addTask { try await (index % 2 == 0 ? one : other).rotate().id } }
      return try await group.reduce(into: Set()) { $0.insert($1) }
    }
    try await one.maintain()
    try await other.maintain()
    #expect(made.count == 20)
    #expect(ids(one).count == 2 && ids(one).first == before[0] && made.contains(ids(one)[1]))
    #expect(ids(other) == ids(one))
  }

  @Test("C15: instances change to the next key together, whatever their clocks say, and forget the last one so")
  func takeover() async throws {
    let early = ManualClock(SystemClock().now() + .seconds(3600))
    let (one, other) = (try await ring(), try await ring(clock: early))
    let store = try await store()
    let old = ids(one)[0]
    let new = try await one.rotate().id
    try await other.maintain()
    func signers() throws -> [String] {
      try [one, other].map { ring in
        let token = try ring.sign(["a": .integer(1)], type: "test+jwt")
        return try CompactJWS(parsing: token).header["kid"]?.string ?? ""
      }
    }
    #expect(try signers() == [old, old])
    try await age(store, by: Limits.signingKeyLead)
    for ring in [one, other] { try await ring.maintain() }
    #expect(try signers() == [new, new] && ids(one) == [old, new] && ids(other) == [old, new])
    try await age(store, by: Self.policy.tokenLifetime)
    for ring in [one, other] { try await ring.maintain() }
    #expect(ids(one) == [new] && ids(other) == [new])
  }

  @Test("C15: an instance that stood still for minutes signs nothing and denies no key until it looks")
  func pause() async throws {
    let clock = ManualClock()
    let ring = try await ring(clock: clock)
    clock.advance(by: Limits.signingKeyLead / 2 - .milliseconds(1))
    _ = try ring.sign(["a": .integer(1)], type: "test+jwt")
    clock.advance(by: .milliseconds(1))
    #expect(ring.published == nil && ring.obstacle != nil)
    #expect(throws: SigningKeyError.self) { try ring.sign(["a": .integer(1)], type: "test+jwt") }
    try await ring.maintain()
    #expect(ring.obstacle == nil)
    _ = try ring.sign(["a": .integer(1)], type: "test+jwt")
  }

  @Test("C15: rows that another secret sealed, or that were changed, are not believed; the error names the key")
  func tampering() async throws {
    let ring = try await ring()
    let id = ids(ring)[0]
    for change in ["not_before = not_before - 1", "sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1)"] {
      let error = await #expect(throws: SigningKeyError.self) { try await self.ring(secret: 2) }
      #expect(error?.description.contains(id) == true)
      try server.run(sql: "UPDATE identity.signing_keys SET \(change)", in: url)
      let changed = await #expect(throws: SigningKeyError.self) { try await ring.maintain() }
      #expect(changed?.description.contains(id) == true)
      let undo = change.hasPrefix("not") ? "not_before = not_before + 1" : change
      try server.run(sql: "UPDATE identity.signing_keys SET \(undo)", in: url)
      try await ring.maintain()
    }
    // Nothing of the key can be read in the row.
    #expect(try await query("SELECT encode(sealed, 'escape') FROM signing_keys").contains("PRIVATE KEY") == false)
  }
}
