import Domain
import Glibc
import LatchkeyModel
import Storage
import StoragePostgreSQL
import StorageSQLite
import Synchronization

/// What starts, refreshes and sign-ins cost on each engine, side by side and in turns: CPU of this process, which is a
/// service without its wire, and of all PostgreSQL processes that it can see.
///
///     LATCHKEY_ENGINE_COST=1 swift run -c release --scratch-path .build/cost engine-cost OPERATIONS FOLDER URL...
///
/// Each URL is an empty database, for one round. Both engines wait for the disk.
@main struct EngineCost {
  static func main() async throws {
    let arguments = Array(CommandLine.arguments.dropFirst())
    guard arguments.count > 2, let operations = Int(arguments[0]) else {
      print("engine-cost OPERATIONS FOLDER URL...")
      exit(64)
    }
    print("engine      operation  us in the service  us in PostgreSQL  us in all  a second")
    for (round, url) in arguments.dropFirst(2).enumerated() {
      let file = "\(arguments[1])/identity-\(round).db"
      let sqlite = SQLiteIdentityStorage(try SQLiteDatabase.open(path: file, schema: .identity))
      try await People(sqlite, operations).run { print(row("sqlite", $0, $1)) }
      let database = try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: .identity)
      try await People(PostgreSQLIdentityStorage(database), operations).run { print(row("postgresql", $0, $1)) }
      await database.close()
    }
  }

  private static func row(_ engine: String, _ operation: String, _ cost: Cost) -> String {
    [
      engine.padded(10), operation.padded(9), "\(cost.service)".padded(17), "\(cost.database)".padded(16),
      "\(cost.service + cost.database)".padded(9), "\(cost.rate)",
    ].joined(separator: "  ")
  }
}

extension String {
  func padded(_ width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

/// CPU, in microseconds for each operation.
struct Cost {
  var service: Int
  var database: Int
  var rate: Int
}

/// Who does which operation.
final class Turns: Sendable {
  private let number = Mutex(0)

  func next() -> Int {
    number.withLock { number in
      number += 1
      return number - 1
    }
  }
}

/// Sixteen callers at a time, as many as a service has under load.
final class People: Sendable {
  private let domain: IdentityDomain
  private let count: Int
  private let now = Timestamp(secondsSinceEpoch: 1_800_000_000)
  private let sessions = Mutex<[Session]>([])
  private let accounts = Mutex<[SubjectID]>([])

  init(_ storage: any IdentityStorage, _ count: Int) {
    self.count = count
    let chain = AuditChain { message in
      var link = [UInt8](repeating: 0, count: 32)
      for (index, byte) in message.enumerated() { link[index % 32] = link[index % 32] &* 31 &+ byte }
      return link
    }
    domain = IdentityDomain(storage, audit: chain)
  }

  private let source = RandomSource { count in
    var generator = SystemRandomNumberGenerator()
    return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
  }

  private func draft(_ method: SignInMethod) -> SessionDraft {
    SessionDraft(
      client: ClientID("com.example.app")!, method: method, address: "192.0.2.1", lifetimes: TokenLifetimes(), at: now,
      random: source)
  }

  func run(_ report: (String, Cost) -> Void) async throws {
    report("start", try await measure { try await self.start($0) })
    report("refresh", try await measure { try await self.refresh($0) })
    _ = try await measure { try await self.register($0) }
    report("sign in", try await measure { try await self.signIn($0) })
  }

  private func start(_ number: Int) async throws {
    let device = DeviceRegistration(
      keyThumbprint: "a thumbprint of some forty characters \(number)", publicKeyX: source.bytes(32),
      publicKeyY: source.bytes(32), deviceID: DeviceID("01234567-89ab-4cde-8f01-23456789abcd")!)
    let challenge = UsedChallenge(hash: source.bytes(32), expiry: now + .seconds(300))
    let outcome = try await domain.perform(
      StartGuest(
        device: device, challenge: challenge, newSubject: SubjectID(from: source), locale: nil, draft: draft(.guest)))
    guard case .started(let guest) = outcome else { preconditionFailure("\(outcome)") }
    sessions.withLock { $0.append(guest.session) }
  }

  private func refresh(_ number: Int) async throws {
    let session = sessions.withLock { $0[number] }
    let outcome = try await domain.perform(
      Refresh(session: session.id, generation: 1, lifetimes: TokenLifetimes(), at: now + .seconds(600)) { _ in true })
    guard case .refreshed = outcome else { preconditionFailure("\(outcome)") }
  }

  private func register(_ number: Int) async throws {
    let outcome = try await domain.perform(
      Register(
        identifier: AccountIdentifier("person\(number)")!, secretHash: "hash", nickname: nil, locale: nil,
        newSubject: SubjectID(from: source), guestSession: nil, draft: draft(.password), source: "192.0.2.1"))
    guard case .registered(let signedIn) = outcome else { preconditionFailure("\(outcome)") }
    accounts.withLock { accounts in
      while accounts.count <= number { accounts.append(signedIn.session.subject) }
      accounts[number] = signedIn.session.subject
    }
  }

  private func signIn(_ number: Int) async throws {
    let account = accounts.withLock { $0[number] }
    let outcome = try await domain.perform(
      SignIn(
        proof: .password(account: account, identifier: AccountIdentifier("person\(number)")!, hash: "hash"), guest: nil,
        draft: draft(.password), source: "192.0.2.1"))
    guard case .signedIn = outcome else { preconditionFailure("\(outcome)") }
  }

  private func measure(_ body: @escaping @Sendable (Int) async throws -> Void) async throws -> Cost {
    let turns = Turns()
    let (clock, before, began) = (ContinuousClock(), (Self.ownTime, Self.databaseTime), ContinuousClock.now)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<16 {
        group.addTask { [count, turns, body] in
          while true {
            let number = turns.next()
            if number >= count { return }
            try await body(number)
          }
        }
      }
      try await group.waitForAll()
    }
    let took = (clock.now - began) / .seconds(1)
    return Cost(
      service: (Self.ownTime - before.0) / count, database: (Self.databaseTime - before.1) / count,
      rate: Int(Double(count) / took))
  }

  /// In microseconds.
  private static var ownTime: Int {
    var usage = rusage()
    // Fills the structure and keeps nothing.
    unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
    return Int(seconds) * 1_000_000 + Int(usage.ru_utime.tv_usec) + Int(usage.ru_stime.tv_usec)
  }

  /// Of every process called `postgres`, in microseconds: clock ticks are hundredths.
  private static var databaseTime: Int {
    var ticks = 0
    for process in 1..<4_194_304 {
      guard process < lastProcess else { break }
      guard let text = text(of: "/proc/\(process)/stat"), let end = text.lastIndex(of: ")"),
        text[..<end].hasSuffix("(postgres")
      else { continue }
      // After the name: state, then eleven numbers, then user and system time, each with its children's.
      let words = text[text.index(after: end)...].split(separator: " ")
      ticks += (11...14).reduce(0) { $0 + (Int(words[$1]) ?? 0) }
    }
    return ticks * 10_000
  }

  private static var lastProcess: Int {
    let last = text(of: "/proc/loadavg")?.split(whereSeparator: \.isWhitespace).last
    return (last.flatMap { Int($0) } ?? 0) + 1
  }

  private static func text(of path: String) -> String? {
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    // Fills the array, which is as long as it says.
    let count = unsafe bytes.withUnsafeMutableBytes { unsafe read(file, $0.baseAddress, $0.count) }
    return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
  }
}
