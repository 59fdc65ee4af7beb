import Cryptography
import JSON
import LatchkeyModel
import Logging
import Transfers

/// The providers that this installation trusts, with their keys.
package struct OpenIDProviders: Sendable {
  private let list: [(provider: OpenIDProvider, keys: ProviderKeys)]

  package init(
    _ providers: [OpenIDProvider], logger: Logger,
    fetch: @escaping @Sendable (HTTPRequest) async throws(TransferError) -> HTTPResponse
  ) {
    list = providers.map { ($0, ProviderKeys($0, logger: logger, fetch: fetch)) }
  }

  package enum Failure: Error, Equatable {
    /// Not a token that a trusted provider made for us, now, for this nonce.
    case refused
    /// Nobody can tell just now.
    case unavailable
  }

  /// Who the token says its bearer is (OpenID Connect Core section 3.1.3.7).
  package func verify(
    _ token: String, nonce: String, at now: Timestamp
  ) async throws(Failure) -> (id: FederatedID, claims: JSONValue) {
    guard let jws = try? CompactJWS(parsing: token, signatureBytes: Self.signatureBytes),
      let issuer = jws.claimed("iss"), let (provider, keys) = list.first(where: { $0.provider.issuer == issuer }),
      (try? jws.checkForeignHeader(type: "jwt", isTypeOptional: true)) != nil,
      let algorithm = jws.header["alg"]?.string.flatMap({ SignatureAlgorithm(rawValue: $0) }),
      provider.algorithms.contains(algorithm)
    else { throw .refused }
    let claims: JSONValue
    switch await keys.key(jws.header["kid"]?.string, algorithm, at: now) {
    case .found(let key):
      guard let payload = try? jws.verifiedPayload(with: key) else { throw .refused }
      claims = payload
    case .unknown: throw .refused
    case .unavailable: throw .unavailable
    }
    guard claims["iss"]?.string == provider.issuer, Self.isFor(provider.clientIDs, claims),
      Self.isNonce(nonce, claims), Self.isTime(claims, now),
      let id = FederatedID(
        issuer: provider.issuer, subject: claims["sub"]?.string ?? "", provider: provider.name)
    else { throw .refused }
    return (id, claims)
  }

  /// ES256 has 64 bytes, RS256 as many as the key.
  private static let signatureBytes = 64...Cryptography.Limits.rsaModulusBytes.upperBound

  private static func isFor(_ clientIDs: [String], _ claims: JSONValue) -> Bool {
    let audience: [String]
    switch claims["aud"] {
    case .string(let one): audience = [one]
    case .array(let several): audience = several.compactMap(\.string)
    default: return false
    }
    guard audience.contains(where: { clientIDs.contains($0) }) else { return false }
    // Several audiences: the party that it was issued to must be said, and be us. Said anyway, it must be us as well.
    guard let party = claims["azp"] else { return audience.count == 1 }
    return party.string.map { clientIDs.contains($0) } ?? false
  }

  /// The nonce itself, or its hash: some providers' libraries hash it on the way.
  private static func isNonce(_ nonce: String, _ claims: JSONValue) -> Bool {
    guard let claimed = claims["nonce"]?.string else { return false }
    let digits = Array("0123456789abcdef".utf8)
    let hash = SHA256Hash.hash(Array(nonce.utf8)).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    return ConstantTime.equals(claimed, nonce)
      || ConstantTime.equals(Array(claimed.utf8), hash)
  }

  private static func isTime(_ claims: JSONValue, _ now: Timestamp) -> Bool {
    let skew = Cryptography.Limits.clockSkew
    guard let expiry = time(claims["exp"]), now < expiry + skew, let issued = time(claims["iat"]),
      now >= issued - skew, now <= issued + Limits.idTokenAge
    else { return false }
    guard let start = claims["nbf"] else { return true }
    return time(start).map { now >= $0 - skew } ?? false
  }

  /// A NumericDate, which may have a fraction.
  private static func time(_ value: JSONValue?) -> Timestamp? {
    // The year 9999: seconds beyond it are no time, and would overflow as milliseconds.
    let latest: Int64 = 253_402_300_799
    switch value {
    case .integer(let seconds) where (0...latest).contains(seconds): return Timestamp(secondsSinceEpoch: seconds)
    case .number(let seconds) where seconds >= 0 && seconds <= Double(latest):
      return Timestamp(millisecondsSinceEpoch: Int64(seconds * 1000))
    default: return nil
    }
  }
}
