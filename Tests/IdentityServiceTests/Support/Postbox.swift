import LatchkeyModel
import Storage
import Synchronization

@testable import IdentityService

/// A sink that keeps what it is given, or fails as long as it is told to.
final class Postbox: CodeSink {
  private struct State {
    var messages: [CodeMessage] = []
    var notices: [OwnerNotice] = []
    var isBroken = false
    /// Recipients that are unknown here, and those whose messages take until they are let go.
    var refused: Set<String> = []
    var held: Set<String> = []
    var refusals = 0
  }

  private let state = Mutex(State())

  var codes: [String] { state.withLock { $0.messages.map { String(decoding: $0.code.exposed, as: UTF8.self) } } }
  var recipients: [String] { state.withLock { $0.messages.map(\.identifier.canonical) } }
  var notices: [OwnerNotice] { state.withLock { $0.notices } }
  var refusals: Int { state.withLock { $0.refusals } }

  func breakDown(_ isBroken: Bool) { state.withLock { $0.isBroken = isBroken } }
  func refuse(_ recipient: String) { state.withLock { _ = $0.refused.insert(recipient) } }
  func hold(_ recipients: [String]) { state.withLock { $0.held.formUnion(recipients) } }
  func accept(_ recipient: String) { state.withLock { _ = $0.refused.remove(recipient) } }
  func letGo() { state.withLock { $0.held = [] } }

  func deliver(_ notice: OwnerNotice) async throws(CodeDeliveryError) {
    try await take(from: notice.recipient) { $0.notices.append(notice) }
  }

  func deliver(_ message: CodeMessage) async throws(CodeDeliveryError) {
    try await take(from: message.identifier) { $0.messages.append(message) }
  }

  private func take(
    from recipient: AccountIdentifier, _ keep: (inout State) -> Void
  ) async throws(CodeDeliveryError) {
    let recipient = recipient.canonical
    while state.withLock({ $0.held.contains(recipient) }) {
      do { try await Task.sleep(for: .milliseconds(2)) } catch { throw CodeDeliveryError("the test is over") }
    }
    let failure: CodeDeliveryError? = state.withLock { state in
      if state.isBroken { return CodeDeliveryError("the box is full", isChannelWide: true) }
      if state.refused.contains(recipient) {
        state.refusals += 1
        return CodeDeliveryError("nobody of that name")
      }
      keep(&state)
      return nil
    }
    if let failure { throw failure }
  }

  /// The newest of so many codes that were to be delivered.
  func code(_ count: Int = 1) async throws -> String {
    while codes.count < count { try await Task.sleep(for: .milliseconds(2)) }
    return try codes.last.orThrow()
  }
}
