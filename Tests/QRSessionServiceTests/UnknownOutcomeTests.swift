import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import Synchronization
import Testing
import TransportServer

@testable import QRSessionService

@Suite("A store that does not say whether it stored")
struct UnknownOutcomeTests {
  @Test(
    "a change whose outcome is unknown is looked up before it is answered, and made if it was not",
    arguments: [true, false])
  func lookedUp(_ wasStored: Bool) async throws {
    let harness = try Harness(over: { UnsureStore($0, wasStored ? .stores : .loses) })
    let issued = try await harness.issue()
    let scanned = try await harness.scan(issued)
    #expect(try await harness.poll(issued).state == .scanned)
    try await harness.confirm(scanned, checkCode: issued.checkCode)
    #expect(try await harness.poll(issued, verifier: Harness.verifier).tokens != nil)
  }

  @Test("S23: a page whose change comes after others' time after time is told to try again")
  func overtaken() async throws {
    let harness = try Harness(over: { UnsureStore($0, .isOvertaken) })
    let client = try #require(ClientID("latchkey-demo"))
    let request = PageRequest(
      method: "POST",
      path: "/signin/cancel",
      headers: [("content-type", "application/json")],
      body: Array(#"{"device_code":"\#(try await harness.issue().deviceCode)"}"#.utf8),
      peerAddress: "203.0.113.7"
    )
    #expect(await ScreenCalls(api: harness.api, client: client).cancel(request).status == 503)
  }
}

/// Says of every first exchange of a session's version that nobody knows what became of it.
private final class UnsureStore: QRSessionStore {
  /// What became of it: it was stored all the same, or not; or of each exchange, that others' came before.
  enum Truth { case stores, loses, isOvertaken }

  private let store: any QRSessionStore
  private let truth: Truth
  private let unsure = Mutex<Set<Int64>>([])

  init(_ store: any QRSessionStore, _ truth: Truth) {
    self.store = store
    self.truth = truth
  }

  func exchange(
    _ before: QRSession, for session: QRSession, at now: Timestamp
  ) async throws(StorageError) -> Bool {
    guard truth != .isOvertaken else { return false }
    let isFirst = session.phase.state != .consumed && unsure.withLock { $0.insert(session.version).inserted }
    guard isFirst else { return try await store.exchange(before, for: session, at: now) }
    if truth == .stores { _ = try await store.exchange(before, for: session, at: now) }
    throw StorageError(.outcomeUnknown, operation: "exchange")
  }

  func insert(_ session: QRSession) async throws(StorageError) { try await store.insert(session) }

  func session(_ id: QRSessionID) async throws(StorageError) -> QRSession? { try await store.session(id) }

  func session(reference: Digest256) async throws(StorageError) -> QRSession? {
    try await store.session(reference: reference)
  }

  func session(userCode: Digest256) async throws(StorageError) -> QRSession? {
    try await store.session(userCode: userCode)
  }

  func session(pollSecret: Digest256) async throws(StorageError) -> QRSession? {
    try await store.session(pollSecret: pollSecret)
  }

  func sessions(
    expiringAfter time: Timestamp, following id: QRSessionID?, limit: Int
  ) async throws(StorageError) -> [QRSession] {
    try await store.sessions(expiringAfter: time, following: id, limit: limit)
  }

  func removeSessions(
    redeemedBefore: Timestamp, othersBefore: Timestamp, limit: Int
  ) async throws(StorageError) -> Int {
    try await store.removeSessions(redeemedBefore: redeemedBefore, othersBefore: othersBefore, limit: limit)
  }
}
