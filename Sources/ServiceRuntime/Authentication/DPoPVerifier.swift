internal import Cryptography
package import GRPC
internal import JSON
package import LatchkeyModel
internal import Synchronization

/// Decides whether a proof shows that the caller has the key that its token is bound to (RFC 9449 section 4.3, R22).
///
/// Of the proof's address (`htu`) the path is compared, which names service and method. Scheme and host are not: a
/// proxy may change both, and `ath` ties the proof to one token, which names the services that accept it.
package final class DPoPVerifier: Sendable {
  private struct State {
    var memory: ProofMemory
    /// Proofs of calls that are being looked at: as many as there are such calls.
    var pending: Set<ProofMemory.Name> = []
    var released = ReleasedProofs()
  }

  /// The last proofs that were shown and are not remembered, since their keys made no difference. With another request they
  /// might: so they do not count again either, until as many newer ones have come. They keep nobody out.
  private struct ReleasedProofs {
    private var names: Set<ProofMemory.Name> = []
    private var ring: [ProofMemory.Name] = []
    private var next = 0

    func contains(_ name: ProofMemory.Name) -> Bool { names.contains(name) }

    mutating func insert(_ name: ProofMemory.Name) {
      guard names.insert(name).inserted else { return }
      guard ring.count == Limits.releasedProofs else { return ring.append(name) }
      names.remove(ring[next])
      ring[next] = name
      next = (next + 1) % ring.count
    }
  }

  /// That a credential was found to be bound to the key that the call proves: set by whoever finds it.
  package enum KeyMattered: ServerContextKey {
    package typealias Value = Bool
  }

  private let state: Mutex<State>
  private let nonces: ProofNonces
  private let needsNonces: Bool
  private let horizon: ProofHorizon?

  /// - Parameters:
  ///   - nonces: what a proof may have to hold.
  ///   - needsNonces: whether every proof has to, or only those that an earlier process may have taken.
  ///   - horizon: tells which those are; nil where there is no earlier process.
  ///   - capacity: proofs that are remembered.
  ///   - share: how many of them may be of one key.
  package init(
    nonces: ProofNonces = ProofNonces(),
    needsNonces: Bool = false,
    horizon: ProofHorizon? = nil,
    capacity: Int = Limits.rememberedProofs,
    share: Int = Limits.rememberedProofsOfKey
  ) {
    self.nonces = nonces
    self.needsNonces = needsNonces
    self.horizon = horizon
    state = Mutex(State(memory: ProofMemory(capacity: capacity, share: share)))
  }

  /// Makes a call for tokens with the key that it proves (RFC 9449 section 5), so that they are bound to it; with nil
  /// when it proves none.
  ///
  /// The proof is taken for as long as `body` runs, and remembered if that has succeeded and the key made a difference, or
  /// if ``KeyMattered``: a proof is as cheap as the key that made it, so whoever could show any number of keys for nothing
  /// would fill the memory that is everybody's. The last of the others do not count again either, but for those of calls
  /// that failed. A caller whose access token was checked with the call's proof has proven that token's key.
  ///
  /// Errors: as ``check(_:of:boundTo:method:at:)``, and those of `body`.
  ///
  /// - Parameters:
  ///   - remembersIf: whether what came out, or what was shown for it, is bound to the key, or cost its caller something
  ///     that is limited. Called once `body` has succeeded.
  ///   - body: the call, with the proven key's thumbprint.
  package func withProvenKey<Value>(
    _ context: ServerContext,
    at now: Timestamp,
    remembersIf: (_ value: Value, _ key: String) -> Bool,
    _ body: (String?) async throws(RPCError) -> Value
  ) async throws(RPCError) -> Value {
    guard context.firstValue("dpop") != nil else { return try await body(nil) }
    if case .subject(let caller) = context.caller, let thumbprint = caller.keyThumbprint {
      return try await body(thumbprint)
    }
    guard let text = Credential.proof(context) else { throw Self.invalid }
    let (proof, thumbprint) = try verify(text, of: nil, boundTo: nil, method: context.method, at: now)
    try take(proof, at: now)
    do throws(RPCError) {
      let value = try await body(thumbprint)
      let isRemembered = remembersIf(value, thumbprint) || context[KeyMattered.self] == true
      state.withLock { state in
        state.pending.remove(proof.name)
        if isRemembered { state.memory.insert(proof, at: now) } else { state.released.insert(proof.name) }
      }
      return value
    } catch {
      let isRemembered = context[KeyMattered.self] == true
      state.withLock { state in
        state.pending.remove(proof.name)
        if isRemembered { state.memory.insert(proof, at: now) }
      }
      throw error
    }
  }

  /// Errors: `UNAUTHENTICATED` with `invalid_dpop_proof` or `use_dpop_nonce`; `RESOURCE_EXHAUSTED` when
  /// the key made more proofs in a second than can be remembered, or there is no room for another key's.
  package func check(
    _ proof: String,
    of token: String,
    boundTo thumbprint: String,
    method: RPCMethod,
    at now: Timestamp
  ) throws(RPCError) {
    let proof = try verify(proof, of: token, boundTo: thumbprint, method: method, at: now).proof
    if let refusal = state.withLock({ state -> RPCError? in
      if let refusal = Self.refusal(of: proof, &state, at: now) { return refusal }
      state.memory.insert(proof, at: now)
      return nil
    }) {
      throw refusal
    }
  }

  private func take(_ proof: ProofMemory.Proof, at now: Timestamp) throws(RPCError) {
    if let refusal = state.withLock({ state -> RPCError? in
      if let refusal = Self.refusal(of: proof, &state, at: now) { return refusal }
      state.pending.insert(proof.name)
      return nil
    }) {
      throw refusal
    }
  }

  private static func refusal(of proof: ProofMemory.Proof, _ state: inout State, at now: Timestamp) -> RPCError? {
    guard !state.pending.contains(proof.name), !state.released.contains(proof.name) else { return invalid }
    switch state.memory.verdict(proof, at: now) {
    case .new: return nil
    case .known: return invalid(at: now)
    case .tooMany, .full: return tooMany
    }
  }

  private func verify(
    _ proof: String,
    of token: String?,
    boundTo thumbprint: String?,
    method: RPCMethod,
    at now: Timestamp
  ) throws(RPCError) -> (proof: ProofMemory.Proof, thumbprint: String) {
    let identifier: String
    let issued: Timestamp
    let proven: String
    let nonce: String?
    do {
      let jws = try CompactJWS(parsing: proof)
      try jws.checkHeader(type: "dpop+jwt", allowingKey: true)
      let key = try P256PublicKey(jwk: jws.header["jwk"] ?? .null)
      let payload = try jws.verifiedPayload(with: key)
      (identifier, issued) = try Self.identifier(payload, token, method)
      proven = key.thumbprint
      nonce = payload["nonce"]?.string
      if let thumbprint, !ConstantTime.equals(proven, thumbprint) { throw Self.invalid }
    } catch {
      // One answer for all: what exactly is wrong helps only whoever forges.
      throw Self.invalid(at: now)
    }
    guard issued <= now + Limits.proofAge, now <= issued + Limits.proofAge else {
      throw Self.outOfTime(issued, at: now)
    }
    if let nonce {
      guard nonces.accepts(nonce, at: now) else { throw Self.nonceRequired(nonces, at: now) }
    } else if needsNonces || horizon?.covers(issued.secondsSinceEpoch) == false {
      throw Self.nonceRequired(nonces, at: now)
    }
    let proof = ProofMemory.Proof(
      key: Self.name(proven),
      name: Self.name("\(proven) \(identifier)"),
      issued: issued.secondsSinceEpoch
    )
    return (proof, proven)
  }

  private static func name(_ text: String) -> ProofMemory.Name {
    let hash = SHA256Hash.hash(Array(text.utf8))
    let halves = (hash[..<8], hash[8..<16])
    return ProofMemory.Name(halves.0.reduce(0) { $0 << 8 | UInt64($1) }, halves.1.reduce(0) { $0 << 8 | UInt64($1) })
  }

  /// The proof's identifier and time, when it is made for this token and this method.
  private static func identifier(
    _ payload: JSONValue,
    _ token: String?,
    _ method: RPCMethod
  ) throws -> (String, Timestamp) {
    guard let identifier = payload["jti"]?.string, !identifier.isEmpty,
      identifier.utf8.count <= Limits.proofIdentifierBytes,
      payload["htm"]?.string == "POST",
      let address = payload["htu"]?.string, path(of: address) == method.path,
      token == nil || payload["ath"]?.string == token.map({ Base64URL.encode(SHA256Hash.hash(Array($0.utf8))) }),
      let seconds = payload["iat"]?.integer, (0...253_402_300_799).contains(seconds)
    else { throw invalid }
    return (identifier, Timestamp(secondsSinceEpoch: seconds))
  }

  /// The path of an `http` or `https` address without query and fragment; nil for anything else.
  private static func path(of address: String) -> String? {
    guard let scheme = ["https://", "http://"].first(where: { address.hasPrefix($0) }) else { return nil }
    let rest = address.dropFirst(scheme.count)
    guard let slash = rest.firstIndex(of: "/"), slash > rest.startIndex else { return nil }
    return String(rest[slash...].prefix { $0 != "?" && $0 != "#" })
  }

  var count: Int { state.withLock { $0.memory.count + $0.pending.count } }

  package static let invalid = RPCError(
    .unauthenticated,
    "the proof of possession does not hold",
    reason: "invalid_dpop_proof"
  )
  /// The same, with the time to make another proof by.
  private static func invalid(at now: Timestamp) -> RPCError {
    var refusal = invalid
    refusal.details.info = [RPCError.KeyValue("server_time", "\(now.secondsSinceEpoch)")]
    return refusal
  }

  /// The proof holds, but for a nonce of ours: the client makes another with this one (RFC 9449 section 9).
  private static func nonceRequired(_ nonces: ProofNonces, at now: Timestamp) -> RPCError {
    let nonce = nonces.current(at: now)
    return RPCError(
      .unauthenticated,
      "the proof of possession must hold the nonce of this answer's \(ProofNonces.metadataName)",
      reason: "use_dpop_nonce",
      info: [RPCError.KeyValue("dpop_nonce", nonce)],
      metadata: [ProofNonces.metadataName: nonce]
    )
  }

  /// The proof holds but for its time, so one of the two clocks is wrong: whoever reads this has to know by how much.
  private static func outOfTime(_ issued: Timestamp, at now: Timestamp) -> RPCError {
    let seconds = issued.secondsSinceEpoch - now.secondsSinceEpoch
    let skew = seconds < 0 ? "\(-seconds) seconds before" : "\(seconds) seconds after"
    return RPCError(
      .unauthenticated,
      "the proof of possession was made \(skew) this service's time, \(now.secondsSinceEpoch): check both clocks",
      reason: "invalid_dpop_proof",
      info: [RPCError.KeyValue("server_time", "\(now.secondsSinceEpoch)")]
    )
  }

  private static let tooMany = RPCError(
    .resourceExhausted,
    "too many proofs in a short time",
    retryAfter: .seconds(1)
  )
}
