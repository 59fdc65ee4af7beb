import Cryptography
import JSON
import LatchkeyModel
import Synchronization

/// The signing keys in use: signs with the one whose time it is, verifies with all that are published, and makes the
/// next one in time.
///
/// Where other instances have the keys too, what was read holds for half of the time between a key's making and its first
/// signature: until then nobody signs with a key that is not known here, and nobody forgets one that this instance signs
/// with. An instance that stood still for longer signs nothing, and says of no key that it is none, until it has looked.
package final class SigningKeyRing: Sendable {
  package struct Policy: Sendable {
    /// How long an access token may be presented after it was signed, clock skew included.
    package var tokenLifetime: Duration
    package var period: Duration
    package var lead: Duration

    package init(
      tokenLifetime: Duration,
      period: Duration = Limits.signingKeyPeriod,
      lead: Duration = Limits.signingKeyLead
    ) {
      self.tokenLifetime = tokenLifetime
      self.period = period
      self.lead = lead
    }
  }

  private struct State {
    var schedule: SigningKeySchedule
    var signers: [String: AccessTokenSigner]
    var published: JSONWebKeySet
    /// When they were read: by their own time, by this process's, and by one that is never set.
    var time: Timestamp
    var wall: Timestamp
    var asOf: ContinuousClock.Instant
    var heard: ContinuousClock.Instant
  }

  /// Whether other instances have the keys too.
  package var isShared: Bool { store.isShared }

  private let store: any SigningKeyStore
  private let policy: Policy
  private let clock: any WallClock
  private let state: Mutex<State>

  /// Reads the keys; makes the first one when there is none.
  package init(_ store: any SigningKeyStore, policy: Policy, clock: any WallClock) async throws(SigningKeyError) {
    self.store = store
    self.policy = policy
    self.clock = clock
    let wall = clock.now()
    state = Mutex(Self.state(try await Self.upkeep(of: store, policy), policy, wall: wall))
  }

  /// Reads the keys again, makes the next one when it is due, and forgets the retired ones. Files block on the disk.
  package func maintain() async throws(SigningKeyError) {
    let wall = clock.now()
    take(try await Self.upkeep(of: store, policy), wall: wall)
  }

  /// Makes a key that takes over once verifiers have had time to learn it. Takes the place of one that still waits:
  /// however often keys are rotated, no more pile up than have signed.
  ///
  /// Errors: `tooMany` before anything is made.
  package func rotate() async throws(SigningKeyError) -> SigningKeySchedule.Entry {
    let (wall, policy) = (clock.now(), policy)
    let (change, reading) = try await store.change { keys, now throws(SigningKeyError) in
      try Self.rotation(of: keys, policy, now)
    }
    take(reading, wall: wall)
    guard let made = change.new.last else { throw .unmade }
    return made.entry
  }

  /// A statement that is no access token, which `type` says.
  package func sign(_ payload: JSONValue, type: String) throws(SigningKeyError) -> String {
    let signer = try signer()
    do throws(CryptographyError) {
      return try signer.sign(payload, type: type)
    } catch {
      throw .cryptography(error)
    }
  }

  /// The key whose time it is.
  ///
  /// Errors: `unknown`.
  package func signer() throws(SigningKeyError) -> AccessTokenSigner {
    let (instant, wall) = (ContinuousClock.now, clock.now())
    let signer = state.withLock { state -> AccessTokenSigner? in
      guard isKnown(state, instant, wall) else { return nil }
      // Instances whose clocks differ go by the keys' own, and change to the next one together.
      let now = isShared ? state.time + (instant - state.heard) : wall
      return state.schedule.signing(at: now).flatMap { state.signers[$0.id] }
    }
    guard let signer else { throw .unknown }
    return signer
  }

  /// The public halves of the keys that verifiers should know, as of the last `maintain`; nil while that is too long ago.
  /// Cheap: asked for each call.
  package var published: JSONWebKeySet? {
    let (instant, wall) = (ContinuousClock.now, clock.now())
    return state.withLock { isKnown($0, instant, wall) ? $0.published : nil }
  }

  /// Why nothing can be signed; nil while it can.
  package var obstacle: String? { published == nil ? "which keys sign is not known" : nil }

  /// A machine that stood still may say so by either clock.
  private func isKnown(_ state: State, _ instant: ContinuousClock.Instant, _ wall: Timestamp) -> Bool {
    !isShared || max(instant - state.asOf, wall - state.wall) < policy.lead / 2
  }

  private func take(_ reading: SigningKeyReading, wall: Timestamp) {
    let fresh = Self.state(reading, policy, wall: wall)
    // Of two that were read at the same time the later one counts, whichever comes first.
    state.withLock { if (fresh.asOf, fresh.heard) >= ($0.asOf, $0.heard) { $0 = fresh } }
  }

  private static func state(_ reading: SigningKeyReading, _ policy: Policy, wall: Timestamp) -> State {
    var keys: [String: P256PrivateKey] = [:]
    var signers: [String: AccessTokenSigner] = [:]
    for one in reading.keys {
      keys[one.entry.id] = one.key
      signers[one.entry.id] = AccessTokenSigner(key: one.key)
    }
    let schedule = schedule(reading.keys, policy)
    let published = JSONWebKeySet(schedule.published(at: reading.time).compactMap { keys[$0.id]?.publicKey })
    return State(
      schedule: schedule, signers: signers, published: published, time: reading.time, wall: wall, asOf: reading.asOf,
      heard: reading.heard)
  }

  // MARK: What changes of the keys

  private static func schedule(_ keys: [SigningKey], _ policy: Policy) -> SigningKeySchedule {
    SigningKeySchedule(
      entries: keys.map(\.entry), tokenLifetime: policy.tokenLifetime, period: policy.period, lead: policy.lead)
  }

  /// Reads the keys, and changes them when there is something to do.
  private static func upkeep(
    of store: any SigningKeyStore, _ policy: Policy
  ) async throws(SigningKeyError) -> SigningKeyReading {
    let reading = try await store.load()
    let schedule = schedule(reading.keys, policy)
    guard schedule.due(at: reading.time) != nil || !schedule.retired(at: reading.time).isEmpty else { return reading }
    // Decided anew: another instance may have been faster.
    return try await store.change { keys, now throws(SigningKeyError) in try upkeep(of: keys, policy, now) }.reading
  }

  private static func upkeep(
    of keys: [SigningKey], _ policy: Policy, _ now: Timestamp
  ) throws(SigningKeyError) -> SigningKeyChange {
    let schedule = schedule(keys, policy)
    var change = SigningKeyChange(gone: schedule.retired(at: now))
    if let notBefore = schedule.due(at: now) { change.new = [try SigningKey.make(notBefore: notBefore)] }
    return change
  }

  private static func rotation(
    of keys: [SigningKey], _ policy: Policy, _ now: Timestamp
  ) throws(SigningKeyError) -> SigningKeyChange {
    var change = try upkeep(of: keys, policy, now)
    let left = keys.map(\.entry).filter { !change.gone.contains($0) }
    // Others learn of it long before they would sign with a key that is gone.
    let waiting = left.filter { $0.notBefore > now + policy.lead / 2 }
    guard left.count - waiting.count < Limits.signingKeys else { throw .tooMany }
    // The next one is due: it is this one.
    change.new.removeAll { $0.entry.notBefore > now }
    change.new.append(try SigningKey.make(notBefore: now + policy.lead))
    change.gone += waiting
    return change
  }
}
