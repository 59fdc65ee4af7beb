import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import Synchronization
import Testing

@testable import QRSessionService

@Suite("A store that does not say whether it stored")
struct UnknownOutcomeTests {
  @Test(
    "a change whose outcome is unknown is looked up before it is answered, and made if it was not",
    arguments: [true, false])
  func lookedUp(_ wasStored: Bool) async throws {
    let harness = try Harness(over: { UnsureStore($0, stores: wasStored) })
    let issued = try await harness.issue()
    let scanned = try await harness.scan(issued)
    #expect(try await harness.poll(issued).state == .scanned)
    try await harness.confirm(scanned, checkCode: issued.checkCode)
    #expect(try await harness.poll(issued, verifier: Harness.verifier).tokens != nil)
  }
}

/// Says of every first exchange of a session's version that nobody knows what became of it.
private final class UnsureStore: QRSessionStore {
  private let store: any QRSessionStore
  private let stores: Bool
  private let unsure = Mutex<Set<Int64>>([])

  /// `stores`: whether it was stored all the same.
  init(_ store: any QRSessionStore, stores: Bool) {
    self.store = store
    self.stores = stores
  }

  func exchange(
    _ before: QRSession, for session: QRSession, at now: Timestamp
  ) async throws(StorageError) -> Bool {
    let isFirst = session.phase.state != .consumed && unsure.withLock { $0.insert(session.version).inserted }
    guard isFirst else { return try await store.exchange(before, for: session, at: now) }
    if stores { _ = try await store.exchange(before, for: session, at: now) }
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
