import LatchkeyModel
import Storage

/// What an instance takes to serve codes beside others over one database.
package final class SharedSessions: Sendable {
  let store: any SharedQRSessionStore
  let codes: DeviceCodes
  let tail: ChangeTail
  let arrivals = Arrivals()
  let wakes = Wakes()
  let others: any OtherInstances

  /// - Parameter secret: what the store says all instances have.
  private init(_ store: any SharedQRSessionStore, secret: [UInt8], others: any OtherInstances) {
    self.others = others
    self.store = store
    codes = DeviceCodes(secret: secret)
    tail = ChangeTail(store)
  }

  package static func open(
    _ store: any SharedQRSessionStore, others: any OtherInstances, random: RandomSource
  ) async throws(StorageError) -> SharedSessions {
    let secret = try await store.sharedSecret(proposing: random.bytes(DeviceCodes.secretByteCount))
    return SharedSessions(store, secret: secret, others: others)
  }
}
