import LatchkeyModel
import Storage
import StorageMemory
import StoragePostgreSQL
import StorageSQLite
import Synchronization
import TestSupport
import Testing

/// The engines that these suites run over, as `arguments: Engine.allCases`. A suite talks to the protocols of `Storage`
/// only, so what it demands of one engine it demands of all.
///
/// To add one: a case here, and how it is opened.
enum Engine: String, CaseIterable, Sendable, CustomTestStringConvertible {
  case memory
  case sqlite
  case postgresql

  var testDescription: String { rawValue }

  /// Whether what was written is there when it is opened again.
  var isDurable: Bool { self != .memory }

  func open(in folder: TemporaryFolder) async throws -> any IdentityStorage {
    switch self {
    case .memory: MemoryIdentityStorage()
    case .sqlite:
      SQLiteIdentityStorage(
        try SQLiteDatabase.open(path: folder.file("identity.db"), schema: .identity, isPatient: true))
    case .postgresql:
      PostgreSQLIdentityStorage(try await Self.postgresql(in: folder, schema: .identity))
    }
  }

  func openMigrations(in folder: TemporaryFolder) async throws -> any MigrationStorage {
    switch self {
    case .memory: MemoryMigrationStorage()
    case .sqlite:
      SQLiteMigrationStorage(
        try SQLiteDatabase.open(path: folder.file("migrator.db"), schema: MigrationSchema.schema, isPatient: true))
    case .postgresql: PostgreSQLMigrationStorage(try await Self.postgresql(in: folder, schema: .migration))
    }
  }

  func openQRSessions(in folder: TemporaryFolder) async throws -> any QRSessionStore {
    switch self {
    case .memory: MemoryQRSessionStore()
    case .sqlite:
      SQLiteQRSessionStore(
        database: try SQLiteDatabase.open(path: folder.file("qr.db"), schema: QRSchema.current, isPatient: true))
    case .postgresql: PostgreSQLQRSessionStore(database: try await Self.postgresql(in: folder, schema: .qr))
    }
  }

  /// The database that belongs to the folder: a new one, or the one that was opened for it before. Several connections,
  /// so that what is asked at once runs at once, and not more than the server has for all suites.
  private static func postgresql(
    in folder: TemporaryFolder, schema: PostgreSQLSchema
  ) async throws -> PostgreSQLDatabase {
    let server = try PostgreSQLServer.shared()
    let url = try databases.withLock { databases in
      let url = try databases[folder.path] ?? server.database()
      databases[folder.path] = url
      return url
    }
    return try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: schema, connections: 4, isPatient: true)
  }

  private static let databases = Mutex<[String: String]>([:])
}

/// An engine with nothing in it, and what a test writes there.
struct Store {
  let folder: TemporaryFolder
  let storage: any IdentityStorage

  init(_ engine: Engine) async throws {
    folder = try TemporaryFolder()
    storage = try await engine.open(in: folder)
  }

  /// Runs `body` as one change.
  func write<Value: Sendable>(
    _ body: @escaping @Sendable (any IdentityTransaction) async throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await storage.write(Work(body: body))
  }

  func read<Value: Sendable>(
    _ body: @escaping @Sendable (any IdentityTransaction) async throws(StorageError) -> Value
  ) async throws(StorageError) -> Value {
    try await storage.read(Work(body: body))
  }

  private struct Work<Value: Sendable>: IdentityOperation {
    static var name: String { "test" }

    let body: @Sendable (any IdentityTransaction) async throws(StorageError) -> Value

    func run(in rows: some IdentityTransaction) async throws(StorageError) -> Value { try await body(rows) }
  }
}

/// Rows to write.
enum Sample {
  static let now = Timestamp(secondsSinceEpoch: 1_800_000_000)

  static func id<ID: OpaqueID>(_ number: UInt8) -> ID {
    ID(value: OpaqueIDValue(from: RandomSource { [UInt8](repeating: number, count: $0) }))
  }

  static func session(
    _ number: UInt8, of subject: UInt8 = 1, on device: String? = "key", isGuest: Bool = false,
    at began: Timestamp = now, idle: Duration = .seconds(1000)
  ) throws -> Session {
    Session(
      id: id(number), subject: id(subject), isGuest: isGuest, client: try #require(ClientID("com.example.app")),
      scope: isGuest ? .basic : .account, method: isGuest ? .guest : .password,
      device: Session.Device(keyThumbprint: device, label: DisplayText("Phone"), platform: DisplayText("android")),
      boundKeyThumbprint: device, refreshSeed: RedactedSecret([number, 7]), beganAt: began, authenticatedAt: began,
      provenBy: isGuest ? .guest : .password,
      family: RefreshFamily(
        generation: 1, rotatedAt: began, idleExpiry: began + idle, absoluteExpiry: began + .seconds(9000)))
  }

  static func registration(_ key: String) throws -> DeviceRegistration {
    DeviceRegistration(
      keyThumbprint: key, publicKeyX: [1], publicKeyY: [2],
      deviceID: try #require(DeviceID("01234567-89ab-4cde-8f01-23456789abcd")), label: DisplayText("Phone"))
  }

  static func identity(_ text: String, verified: Bool = false, at time: Timestamp = now) throws -> Identity {
    let identifier = try identifier(text)
    return Identity(
      kind: identifier.kind, value: identifier.canonical, mask: identifier.mask, linkedAt: time,
      verifiedAt: verified ? time : nil)
  }

  static func identifier(_ text: String) throws -> AccountIdentifier { try #require(AccountIdentifier(text)) }

  static func unlock(_ key: String, of account: UInt8 = 1, on device: String, code: String? = nil) -> Unlock {
    Unlock(
      kind: .key, keyThumbprint: key, account: id(account), deviceKey: device, secretHash: nil, enrolledAt: now,
      binding: code.map {
        DeviceBinding(
          boundAt: now, qrSession: $0, confirmedBy: Session.Device(keyThumbprint: "phone"), scope: .account,
          provenAt: now, expiry: now + .seconds(60))
      })
  }

  static func ticket(_ hash: UInt8, guestSession: UInt8, account: UInt8 = 1) -> LinkTicket {
    LinkTicket(
      hash: [hash], guestSession: id(guestSession), account: id(account),
      authority: Authority(
        scope: .account, method: .password, provenBy: .password, provenAt: now, keyThumbprint: "key",
        expiry: now + .seconds(60)),
      credential: .identity(.email, value: "ada@example.com"), accountMask: "a***", qrSession: nil,
      expiry: now + .seconds(30))
  }

  static func merge(_ number: UInt8, guest: UInt8) -> PendingMerge {
    PendingMerge(
      id: id(number), guest: id(guest), guestSession: id(50), target: id(200), targetSession: id(51),
      isFirstLoginOnDevice: true, createdAt: now)
  }
}
