internal import Cryptography
package import GRPC
package import LatchkeyModel
internal import Synchronization

/// Decides whether a proof shows that the caller has the key that its token is bound to (RFC 9449 section 4.3, R22).
///
/// Of the proof's address (`htu`) the path is compared, which names service and method. Scheme and host are not: a
/// proxy may change both, and `ath` ties the proof to one token, which names the services that accept it.
package final class DPoPVerifier: Sendable {
  private struct State {
    var young: Set<[UInt8]> = []
    var old: Set<[UInt8]> = []
    var turned: Timestamp?
  }

  private let capacity: Int
  /// Proofs that were accepted, by hash: two generations, each as long as a proof can be shown.
  private let state = Mutex(State())

  /// Nil where proofs need no nonce.
  private let nonces: ProofNonces?

  package init(nonces: ProofNonces? = nil, capacity: Int = Limits.rememberedProofs) {
    self.nonces = nonces
    self.capacity = capacity
  }

  /// The key that a call for tokens proves (RFC 9449 section 5), so that they are bound to it; nil when it proves none.
  ///
  /// A caller whose access token was checked with the call's proof has proven that token's key.
  ///
  /// Errors: as ``check(_:of:boundTo:method:at:)``.
  package func provenKey(_ context: ServerContext, at now: Timestamp) throws(RPCError) -> String? {
    guard context.firstValue("dpop") != nil else { return nil }
    if case .subject(let caller) = context.caller, let thumbprint = caller.keyThumbprint { return thumbprint }
    guard let proof = Credential.proof(context.metadata) else { throw Self.invalid }
    return try verify(proof, of: nil, boundTo: nil, method: context.method, at: now)
  }

  /// Errors: `UNAUTHENTICATED` with `invalid_dpop_proof`; `UNAVAILABLE` when more proofs came in a short time than can
  /// be remembered.
  package func check(
    _ proof: String,
    of token: String,
    boundTo thumbprint: String,
    method: RPCMethod,
    at now: Timestamp
  ) throws(RPCError) {
    _ = try verify(proof, of: token, boundTo: thumbprint, method: method, at: now)
  }

  private func verify(
    _ proof: String,
    of token: String?,
    boundTo thumbprint: String?,
    method: RPCMethod,
    at now: Timestamp
  ) throws(RPCError) -> String {
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
      var refusal = Self.invalid
      refusal.details.info = [RPCError.KeyValue("server_time", "\(now.secondsSinceEpoch)")]
      throw refusal
    }
    guard issued <= now + Limits.proofAge, now <= issued + Limits.proofAge else {
      throw Self.outOfTime(issued, at: now)
    }
    if let nonces, !(nonce.map { nonces.accepts($0, at: now) } ?? false) { throw Self.nonceRequired(nonces, at: now) }
    try remember(SHA256Hash.hash(Array("\(proven) \(identifier)".utf8)), at: now)
    return proven
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

  /// A proof is good once. It is remembered for at least as long as its time is accepted.
  private func remember(_ hash: [UInt8], at now: Timestamp) throws(RPCError) {
    let refusal = state.withLock { state -> RPCError? in
      let turned = state.turned ?? now
      state.turned = turned
      // From the earliest to the latest moment at which one proof is accepted. With the clock set back by as much, what
      // was remembered is of times that are not accepted now; waiting for the clock to come up again would fill memory.
      let span = Limits.proofAge * 2
      if now >= turned + span || now < turned - span {
        state.old = state.young
        state.young = []
        state.turned = now
      }
      if state.young.contains(hash) || state.old.contains(hash) { return Self.invalid }
      if state.young.count + state.old.count >= capacity { return Self.full }
      state.young.insert(hash)
      return nil
    }
    if let refusal { throw refusal }
  }

  var count: Int { state.withLock { $0.young.count + $0.old.count } }

  package static let invalid = RPCError(
    .unauthenticated,
    "the proof of possession does not hold",
    reason: "invalid_dpop_proof"
  )
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

  private static let full = RPCError(.unavailable, "too many proofs in a short time", retryAfter: .seconds(1))
}
