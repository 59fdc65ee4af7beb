import LatchkeyModel
import Storage
import Synchronization
import TestSupport
import Testing

@testable import StoragePostgreSQL

@Suite("Which server leads")
struct ServerChoiceTests {
  private static func history(_ timeline: Int64, system: Int64 = 7) -> ServerHistory {
    ServerHistory(system: system, timeline: timeline)
  }

  @Test("C4: whose place another one took is neither taken nor kept, whatever it says of itself")
  func history() {
    var choice = ServerChoice()
    let now = ContinuousClock.now
    #expect(choice.isCurrent(Self.history(1)) && choice.host == nil)
    let isFirstTaken = choice.take(Self.history(1), host: 0, since: now)
    let isNextTaken = choice.take(Self.history(2), host: 1, since: now)
    let isOldTaken = choice.take(Self.history(1), host: 0, since: now)
    #expect(isFirstTaken && isNextTaken && !isOldTaken)
    #expect(choice.host == 1 && !choice.isCurrent(Self.history(1)) && choice.isCurrent(Self.history(2)))
    // What does not say so, and another database altogether.
    #expect(choice.isCurrent(nil) && choice.isCurrent(Self.history(1, system: 8)))
  }

  @Test("C4: after a connection was lost all servers are asked again, by whoever begins later")
  func lost() {
    var choice = ServerChoice()
    let now = ContinuousClock.now
    _ = choice.take(Self.history(1), host: 1, since: now)
    #expect(choice.host == 1)
    choice.wasLost(at: now + .seconds(1))
    #expect(choice.host == nil)
    // Looked for before that.
    _ = choice.take(Self.history(1), host: 1, since: now + .milliseconds(500))
    #expect(choice.host == nil)
    _ = choice.take(Self.history(1), host: 2, since: now + .seconds(2))
    #expect(choice.host == 2)
    // One that took over, before all were asked.
    _ = choice.take(Self.history(2), host: 0, isSure: false, since: now + .seconds(3))
    #expect(choice.host == nil && !choice.isCurrent(Self.history(1)))
  }

  @Test("an URL of several hosts is one of each, as safe as all of them")
  func hosts() throws {
    let url = try PostgreSQLURL("postgresql://u:p@one:5433,localhost,three:5434/db?target_session_attrs=any")
    let each = ["postgresql://u@one:5433/db", "postgresql://u@localhost/db", "postgresql://u@three:5434/db"]
    #expect(url.ofEachHost.map(\.description) == each)
    #expect(url.ofEachHost.allSatisfy { $0.connectionOptions["sslmode"] == "verify-full" && $0.hasPassword })
    let two = try PostgreSQLURL("postgresql://one,two:1/db").ofEachHost
    #expect(two.map(\.description) == ["postgresql://one/db", "postgresql://two:1/db"])
    let one = try PostgreSQLURL("postgresql://one:1/db").ofEachHost
    #expect(one.map(\.description) == ["postgresql://one:1/db"])
  }

  @Test("a server says where it stands, and the host that is there is found among others")
  func found() async throws {
    let server = try PostgreSQLServer.shared()
    let text = try server.database()
    let alone = try PostgreSQLConnection(PostgreSQLURL(text), part: "public", cells: Cells(), patience: .ofServices)
    let history = try #require(alone.history)
    #expect(history.timeline == 1 && history.system != 0)
    let several = try PostgreSQLURL(text.replacing("host=", with: "host=/nowhere,"))
    func find(after known: ServerHistory?) throws -> Int {
      try PostgreSQLConnection.toLeader(several, after: known) { url throws(StorageError) in
        try PostgreSQLConnection(url, part: "public", cells: Cells(), patience: .ofServices)
      }.host
    }
    let host = try find(after: nil)
    #expect(host == 1)
    let later = ServerHistory(system: history.system, timeline: history.timeline + 1)
    let failure = #expect(throws: StorageError.self) { try find(after: later) }
    #expect(failure?.detail.contains("another server has taken its place") == true)
  }
}
