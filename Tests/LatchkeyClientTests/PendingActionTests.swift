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
    try actions.wait(for: "comment", payload: Array("nice".utf8))
    let waiting = try #require(try actions.waiting())
    let taken = try #require(try actions.take())
    #expect(taken == waiting && taken.action == "comment" && taken.payload == Array("nice".utf8))
    #expect(taken.idempotencyKey.count == 22)
  }

  @Test("G10: the interrupted action resumes exactly once, however many ask at the same time")
  func once() async throws {
    let actions = actions
    try actions.wait(for: "buy", payload: [1])
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
    try actions.wait(for: "buy", payload: [])
    try actions.cancel()
    #expect(try actions.take() == nil)
    try actions.wait(for: "buy", payload: [], within: .seconds(60))
    clock.advance(by: .seconds(60))
    #expect(try actions.take() == nil)
    try actions.wait(for: "buy", payload: [])
    try actions.wait(for: "comment", payload: [])
    #expect(try actions.take()?.action == "comment")
  }

  @Test("G9: whatever is kept can be read again, and what is too long is refused by its name and leaves the rest alone")
  func lengths() throws {
    // Characters that take the most room in the store's file.
    let action = String(repeating: "\u{1}", count: Limits.pendingActionBytes)
    let payload = [UInt8](repeating: 0xFF, count: Limits.pendingPayloadBytes)
    try actions.wait(for: action, payload: payload)
    #expect(throws: ClientError.tooLong(field: "payload", limit: Limits.pendingPayloadBytes)) {
      try actions.wait(for: "comment", payload: payload + [0])
    }
    #expect(throws: ClientError.tooLong(field: "action", limit: Limits.pendingActionBytes)) {
      try actions.wait(for: action + "a", payload: [])
    }
    let taken = try #require(try actions.take())
    #expect(taken.action == action && taken.payload == payload)
  }

  @Test("G9: each wish has a key of its own")
  func keys() throws {
    var keys: Set<String> = []
    for _ in 0..<50 {
      try actions.wait(for: "buy", payload: [])
      keys.insert(try #require(try actions.take()).idempotencyKey)
    }
    #expect(keys.count == 50)
  }
}
