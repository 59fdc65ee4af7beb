import Glibc
import Synchronization
import TestSupport
import Testing

@testable import LatchkeyClient

@Suite("The app's own data, by who uses the device", .timeLimit(.minutes(1)))
struct AccountScopeTests {
  private let folder: TemporaryFolder
  private var root: String { "\(folder.path)/accounts" }

  init() throws { folder = try TemporaryFolder() }

  private func session(_ namespace: String) -> Session {
    Session(
      subject: SubjectID(namespace), isGuest: false, sessionID: "s", storageNamespace: namespace, scope: "")
  }

  private struct Broken: Error {}

  /// Which steps ran, and for whom.
  private final class Log: Sendable {
    private let lines = Mutex<[String]>([])
    private let failing = Mutex<Set<String>>([])

    var all: [String] { lines.withLock { $0 } }
    func fail(_ steps: Set<String>) { failing.withLock { $0 = steps } }
    func add(_ line: String) { lines.withLock { $0.append(line) } }

    func step(_ name: String) -> AccountStep {
      AccountStep(name) { change in
        self.add("\(name) \(change.previousNamespace ?? "-")>\(change.space.namespace)")
        if self.failing.withLock({ $0.contains(name) }) { throw Broken() }
      }
    }
  }

  /// As a fresh start of the app makes it.
  private func scope(_ log: Log, patience: Duration = .seconds(30)) -> AccountScope {
    AccountScope(directory: root, steps: ["cache", "index"].map { log.step($0) }, patience: patience)
  }

  @Test("G11: everything begins anew under the account's id, in order and once; the same subject again is no change")
  func steps() async throws {
    let log = Log()
    let scope = scope(log)
    await #expect(throws: AccountScopeError.nobody) { try await scope.current() }
    #expect(try await scope.enter(session("guest")).directory == "\(root)/guest")
    _ = try await scope.enter(session("ada"))
    _ = try await scope.enter(session("ada"))
    #expect(try await scope.current().namespace == "ada")
    // A restart finds it as it was.
    _ = try await self.scope(log).enter(session("ada"))
    #expect(log.all == ["cache ->guest", "index ->guest", "cache guest>ada", "index guest>ada"])
  }

  @Test("G11: a write begun under the guest ends before the switch does, and later ones are refused")
  func barrier() async throws {
    let log = Log()
    let scope = scope(log)
    let guest = try await scope.enter(session("guest"))
    let (began, begin) = AsyncStream<Void>.makeStream()
    let (released, release) = AsyncStream<Void>.makeStream()
    let write = Task {
      try await guest.write { directory in
        begin.finish()
        for await _ in released {}
        log.add("write \(directory.suffix(5))")
      }
    }
    for await _ in began {}
    let change = Task { try await scope.enter(session("ada")) }
    // The switch has begun as soon as the guest's space takes no more.
    while (try? await guest.write { _ in true }) == true { await Task.yield() }
    #expect(log.all.last == "index ->guest")
    release.finish()
    try await write.value
    _ = try await change.value
    #expect(Array(log.all.suffix(3)) == ["write guest", "cache guest>ada", "index guest>ada"])
    await #expect(throws: AccountScopeError.left) { try await guest.write { _ in } }
  }

  @Test("G11: a write that takes too long is cancelled, and fails")
  func impatience() async throws {
    let scope = scope(Log(), patience: .zero)
    let guest = try await scope.enter(session("guest"))
    let (began, begin) = AsyncStream<Void>.makeStream()
    let write = Task {
      try await guest.write { _ in
        begin.finish()
        try await Task.sleep(for: .seconds(3600))
      }
    }
    for await _ in began {}
    #expect(try await scope.enter(session("ada")).namespace == "ada")
    await #expect(throws: CancellationError.self) { try await write.value }
  }

  @Test("G11: a step that fails leaves nobody's space open, and the switch goes on there, also after a crash")
  func failure() async throws {
    let log = Log()
    var scope = scope(log)
    _ = try await scope.enter(session("guest"))
    log.fail(["index"])
    let wipe = AccountChange(
      previousSubject: nil, promoted: false, wipeRequired: true, migrationID: nil, migrationPending: false)
    await #expect(throws: AccountScopeError.stepFailed(step: "index", reason: "Broken()")) {
      try await scope.enter(session("ada"), wipe)
    }
    await #expect(throws: AccountScopeError.unfinished(step: "index")) { try await scope.current() }
    #expect(try AccountJournal.read(in: root).wipeRequired)
    // The app died there.
    log.fail([])
    scope = self.scope(log)
    _ = try await scope.enter(session("ada"))
    #expect(
      Array(log.all.dropFirst(2)) == ["cache guest>ada", "index guest>ada", "index guest>ada"])
    #expect(try AccountJournal.read(in: root) == AccountJournal(current: "ada"))
  }

  @Test("G11: going back from a switch that did not finish begins everything anew")
  func back() async throws {
    let log = Log()
    let scope = scope(log)
    _ = try await scope.enter(session("guest"))
    log.fail(["index"])
    await #expect(throws: AccountScopeError.self) { try await scope.enter(session("ada")) }
    log.fail([])
    #expect(try await scope.enter(session("guest")).namespace == "guest")
    #expect(Array(log.all.suffix(2)) == ["cache guest>guest", "index guest>guest"])
  }

  @Test("G11: switches at the same time happen one after the other")
  func concurrent() async throws {
    let log = Log()
    let scope = scope(log)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for index in 0..<20 { group.addTask { _ = try await scope.enter(session("u\(index % 4)")) } }
      try await group.waitForAll()
    }
    let lines = log.all
    #expect(lines.count % 2 == 0)
    for pair in stride(from: 0, to: lines.count, by: 2) {
      #expect(lines[pair].dropFirst("cache".count) == lines[pair + 1].dropFirst("index".count))
    }
    #expect(try await lines.last?.hasSuffix(">\(scope.current().namespace)") == true)
  }

  @Test("G11: a write or a step that asks for a switch is refused instead of waiting for itself")
  func reentered() async throws {
    let scope = scope(Log())
    let guest = try await scope.enter(session("guest"))
    await #expect(throws: AccountScopeError.reentered) {
      try await guest.write { _ in _ = try await scope.enter(session("ada")) }
    }
  }

  @Test("G5: no namespace leads out of the directory", arguments: ["", ".", "..", "a/b", "../x", "A"])
  func names(namespace: String) async throws {
    await #expect(throws: AccountScopeError.unusableNamespace(namespace)) {
      try await scope(Log()).enter(session(namespace))
    }
  }

  @Test("G11: a damaged journal is reported, not taken for a device that nobody used")
  func damaged() async throws {
    _ = try await scope(Log()).enter(session("guest"))
    try FileSecretStore(directory: root).save(Array("{}".utf8), as: "broken")
    #expect(unsafe rename("\(root)/broken", "\(root)/account-scope.json") == 0)
    await #expect(throws: AccountScopeError.storage("\(root)/account-scope.json is damaged")) {
      try await scope(Log()).enter(session("ada"))
    }
  }

  @Test("G11: after a sign-in the app writes under the account's id, and never for the guest any more")
  func throughTheServices() async throws {
    let harness = try await Harness()
    let log = Log()
    let scope = scope(log)
    let start = try await harness.startGuest()
    let guest = try await scope.enter(start.session)
    try await guest.write { directory in
      try FileSecretStore(directory: directory).save([1], as: "draft")
    }
    let ada = try await Harness.account(on: harness.channel)
    let outcome = try await harness.device().signIn(
      identifier: ada.name, password: ada.password, onConflict: .switch)
    guard case .signedIn(let signIn) = outcome else {
      Issue.record("nobody is signed in")
      return
    }
    let account = try await scope.enter(signIn.session, signIn.change)
    #expect(account.namespace == signIn.session.storageNamespace && account.namespace != guest.namespace)
    await #expect(throws: AccountScopeError.left) { try await guest.write { _ in } }
    #expect(try FileSecretStore(directory: account.directory).secret(named: "draft") == nil)
    // Back as the guest, what it had is there.
    let back = try #require(try await harness.device().signOut(thenGuest: true))
    let again = try await scope.enter(back)
    #expect(again.directory == guest.directory)
    #expect(try FileSecretStore(directory: again.directory).secret(named: "draft") == [1])
    #expect(log.all.count == 6)
    // A guest that becomes the account keeps its place.
    let promoted = try await harness.device().register(identifier: "bob@example.com", password: ada.password)
    #expect(try await scope.enter(promoted.session, promoted.change) === again)
    #expect(log.all.count == 6)
  }
}
