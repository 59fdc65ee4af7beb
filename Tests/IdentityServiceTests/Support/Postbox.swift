import LatchkeyModel
import Synchronization

@testable import IdentityService

/// A sink that keeps what it is given, or fails as long as it is told to.
final class Postbox: CodeSink {
  private let state = Mutex<(messages: [CodeMessage], isBroken: Bool)>(([], false))

  var codes: [String] { state.withLock { $0.messages.map { String(decoding: $0.code.exposed, as: UTF8.self) } } }

  func breakDown(_ isBroken: Bool) { state.withLock { $0.isBroken = isBroken } }

  func deliver(_ message: CodeMessage) async throws(CodeDeliveryError) {
    let isBroken = state.withLock { state in
      if !state.isBroken { state.messages.append(message) }
      return state.isBroken
    }
    if isBroken { throw CodeDeliveryError("the box is full") }
  }

  /// The newest of so many codes that were to be delivered.
  func code(_ count: Int = 1) async throws -> String {
    while codes.count < count { try await Task.sleep(for: .milliseconds(2)) }
    return try codes.last.orThrow()
  }
}
