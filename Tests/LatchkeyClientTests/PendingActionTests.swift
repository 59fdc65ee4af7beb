import LatchkeyModel
import TestSupport
import Testing

@testable import LatchkeyClient

@Suite("Actions that wait for a sign-in")
struct PendingActionTests {
  private let folder: TemporaryFolder
  private let clock = ManualClock()

  init() throws { folder = try TemporaryFolder() }

  /// As a fresh start of the app sees it.
  private var actions: PendingActions {
    PendingActions(secrets: FileSecretStore(directory: "\(folder.path)/profile"), clock: clock)
  }

  @Test("G9: what a gate interrupted is handed out after the sign-in, over a restart, with its key and its payload")
  func survives() throws {
    #expect(try actions.take() == nil)
    #expect(try actions.wait(for: "comment", payload: Array("nice".utf8)))
    let waiting = try #require(try actions.waiting())
    let taken = try #require(try actions.take())
    #expect(taken == waiting && taken.action == "comment" && taken.payload == Array("nice".utf8))
    #expect(taken.idempotencyKey.count == 22)
  }

  @Test("G10: the interrupted action resumes exactly once, however many ask at the same time")
  func once() async throws {
    let actions = actions
    #expect(try actions.wait(for: "buy", payload: [1]))
    let taken = try await withThrowingTaskGroup(of: PendingAction?.self) { group in
      for _ in 0..<20 { group.addTask { try actions.take() } }
      return try await group.reduce(into: [PendingAction]()) { if let action = $1 { $0.append(action) } }
    }
    #expect(taken.map(\.action) == ["buy"])
    #expect(try actions.take() == nil)
    #expect(try actions.waiting() == nil)
  }

  @Test("G9: it is dropped when the person gives up, when it is too late, and when another takes its place")
  func dropped() throws {
    #expect(try actions.wait(for: "buy", payload: []))
    try actions.cancel()
    #expect(try actions.take() == nil)
    #expect(try actions.wait(for: "buy", payload: [], within: .seconds(60)))
    clock.advance(by: .seconds(60))
    #expect(try actions.take() == nil)
    #expect(try actions.wait(for: "buy", payload: []))
    #expect(try actions.wait(for: "comment", payload: []))
    #expect(try actions.take()?.action == "comment")
    #expect(try !actions.wait(for: "comment", payload: [UInt8](repeating: 0, count: Limits.pendingPayloadBytes + 1)))
  }

  @Test("G9: each wish has a key of its own")
  func keys() throws {
    var keys: Set<String> = []
    for _ in 0..<50 {
      #expect(try actions.wait(for: "buy", payload: []))
      keys.insert(try #require(try actions.take()).idempotencyKey)
    }
    #expect(keys.count == 50)
  }
}
