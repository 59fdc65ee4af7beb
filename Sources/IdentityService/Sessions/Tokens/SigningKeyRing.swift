import Cryptography
import JSON
import LatchkeyModel
import Synchronization

/// The signing keys in use: signs with the one whose time it is, verifies with all that are published, and makes the
/// next one in time.
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
  }

  private let directory: SigningKeyDirectory
  private let policy: Policy
  private let clock: any WallClock
  private let state: Mutex<State>

  /// Reads the keys; makes the first one when there is none.
  package init(directory: SigningKeyDirectory, policy: Policy, clock: any WallClock) throws(SigningKeyError) {
    self.directory = directory
    self.policy = policy
    self.clock = clock
    let stored = try Self.loadOrCreate(directory, policy, clock.now())
    state = Mutex(Self.state(stored, policy, clock.now()))
  }

  /// Reads the directory again, makes the next key when it is due, and forgets the retired ones. Blocks on the disk.
  package func maintain() throws(SigningKeyError) {
    let now = clock.now()
    let stored = try Self.loadOrCreate(directory, policy, now)
    let fresh = Self.state(stored, policy, now)
    for entry in fresh.schedule.retired(at: now) { directory.remove(entry) }
    state.withLock { $0 = fresh }
  }

  /// Makes a key that takes over once verifiers have had time to learn it. Takes the place of one that still waits:
  /// however often keys are rotated, no more pile up than have signed.
  ///
  /// Errors: `tooMany` before anything is made.
  package func rotate() throws(SigningKeyError) -> SigningKeySchedule.Entry {
    try maintain()
    let now = clock.now()
    let stored = try directory.load()
    // Another process learns of it long before it would sign with a key that is gone.
    let waiting = stored.filter { $0.entry.notBefore > now + policy.lead / 2 }
    guard stored.count - waiting.count < Limits.signingKeys else { throw .tooMany(directory.path) }
    let made = try directory.create(notBefore: now + policy.lead)
    for key in waiting { directory.remove(key.entry) }
    try maintain()
    return made.entry
  }

  package func sign(_ claims: AccessTokenClaims) throws(CryptographyError) -> String {
    try signer().sign(claims)
  }

  /// A statement that is no access token, which `type` says.
  package func sign(_ payload: JSONValue, type: String) throws(CryptographyError) -> String {
    try signer().sign(payload, type: type)
  }

  private func signer() throws(CryptographyError) -> AccessTokenSigner {
    let now = clock.now()
    let signer = state.withLock { state in
      state.schedule.signing(at: now).flatMap { state.signers[$0.id] }
    }
    guard let signer else { throw .system(operation: "find the signing key") }
    return signer
  }

  /// The public halves of the keys that verifiers should know, as of the last `maintain`. Cheap: asked for each call.
  package var published: JSONWebKeySet { state.withLock { $0.published } }

  private static func loadOrCreate(
    _ directory: SigningKeyDirectory, _ policy: Policy, _ now: Timestamp
  ) throws(SigningKeyError) -> [SigningKeyDirectory.StoredKey] {
    var stored = try directory.load()
    let schedule = schedule(stored, policy)
    if let notBefore = schedule.due(at: now) {
      stored.append(try directory.create(notBefore: notBefore))
    }
    return stored
  }

  private static func schedule(
    _ stored: [SigningKeyDirectory.StoredKey], _ policy: Policy
  ) -> SigningKeySchedule {
    SigningKeySchedule(
      entries: stored.map(\.entry), tokenLifetime: policy.tokenLifetime, period: policy.period, lead: policy.lead)
  }

  private static func state(
    _ stored: [SigningKeyDirectory.StoredKey], _ policy: Policy, _ now: Timestamp
  ) -> State {
    var keys: [String: P256PrivateKey] = [:]
    var signers: [String: AccessTokenSigner] = [:]
    for one in stored {
      keys[one.entry.id] = one.key
      signers[one.entry.id] = AccessTokenSigner(key: one.key)
    }
    let schedule = schedule(stored, policy)
    let published = JSONWebKeySet(schedule.published(at: now).compactMap { keys[$0.id]?.publicKey })
    return State(schedule: schedule, signers: signers, published: published)
  }
}
