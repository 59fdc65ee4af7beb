import Cryptography
import JSON
import LatchkeyModel
import Synchronization

/// The one action that waits for a sign-in. It survives a restart, is handed out once, and is forgotten when the person
/// gives up or it is too late.
///
/// ```
/// nothing ── wait ──▶ waiting ── take (signed in, in time) ──▶ nothing, and the app goes on with it
///    ▲                  │ cancel, expiry, another wait
///    └──────────────────┘
/// ```
/// It is removed from the store before it is handed out: an app that dies in between does it not at all rather than
/// twice. The idempotency key lets an app that wants more keep it beside the call.
public final class PendingActions: Sendable {
  static let name = "pending-action"

  private let secrets: any SecretStore
  private let clock: any WallClock
  /// One change at a time, so that of those who ask at the same time one gets it.
  private let changing = Mutex(())

  public convenience init(secrets: any SecretStore) {
    self.init(secrets: secrets, clock: SystemClock())
  }

  package init(secrets: any SecretStore, clock: any WallClock) {
    self.secrets = secrets
    self.clock = clock
  }

  /// Remembers an action in the place of whatever waited.
  ///
  /// Errors: ``ClientError/tooLong(field:limit:)`` when the action or its payload is; what waited goes on waiting.
  public func wait(
    for action: String, payload: [UInt8], within lifetime: Duration = .seconds(600)
  ) throws(ClientError) {
    guard action.utf8.count <= Limits.pendingActionBytes else {
      throw .tooLong(field: "action", limit: Limits.pendingActionBytes)
    }
    guard payload.count <= Limits.pendingPayloadBytes else {
      throw .tooLong(field: "payload", limit: Limits.pendingPayloadBytes)
    }
    let json: JSONValue = [
      "action": .string(action),
      "payload": .string(Base64URL.encode(payload)),
      "idempotency_key": .string(Base64URL.encode(SecureRandom.bytes(16))),
      "expires_at_ms": .integer((clock.now() + lifetime).millisecondsSinceEpoch),
    ]
    do throws(SecretStoreError) { try secrets.save(json.encoded(), as: Self.name) } catch {
      throw .secretStore(error)
    }
  }

  /// What waits, in time; it goes on waiting.
  public func waiting() throws(ClientError) -> PendingAction? {
    let bytes: [UInt8]?
    do throws(SecretStoreError) { bytes = try secrets.secret(named: Self.name) } catch { throw .secretStore(error) }
    guard let bytes, let json = try? JSONValue(parsing: bytes), let action = json["action"]?.string,
      let payload = json["payload"]?.string.flatMap({ Base64URL.decode($0) }),
      let key = json["idempotency_key"]?.string, let expiry = json["expires_at_ms"]?.integer,
      clock.now().millisecondsSinceEpoch < expiry
    else { return nil }
    return PendingAction(action: action, payload: payload, idempotencyKey: key, expiresAt: expiry)
  }

  /// Hands out what waited, once. Nil when nothing did, or it is too late.
  public func take() throws(ClientError) -> PendingAction? {
    let result = changing.withLock { _ in
      Result { () throws(ClientError) in
        let action = try waiting()
        if action != nil { try cancel() }
        return action
      }
    }
    return try result.get()
  }

  /// The person gave up.
  public func cancel() throws(ClientError) {
    do throws(SecretStoreError) { try secrets.removeSecret(named: Self.name) } catch { throw .secretStore(error) }
  }
}
