import Cryptography
import JSON
import LatchkeyModel
import Logging
import Transfers

/// The keys of one provider, fetched when a token first asks for them and kept.
///
/// A key that is not known asks for them anew, at most every so often, so that made-up key names cannot turn into load
/// on the provider. While a provider cannot be reached its last keys hold for a while.
actor ProviderKeys {
  typealias Fetch = @Sendable (HTTPRequest) async throws(TransferError) -> HTTPResponse

  private let provider: OpenIDProvider
  private let fetch: Fetch
  private let logger: Logger
  private var known: (keys: ProviderKeySet, fetchedAt: Timestamp)?
  private var lastTry: Timestamp?
  private var running: Task<Void, Never>?

  init(_ provider: OpenIDProvider, logger: Logger, fetch: @escaping Fetch) {
    self.provider = provider
    self.logger = logger
    self.fetch = fetch
  }

  enum Finding {
    case found(any VerificationKey)
    /// The provider has no such key.
    case unknown
    /// Its keys could not be fetched.
    case unavailable
  }

  func key(_ id: String?, _ algorithm: SignatureAlgorithm, at now: Timestamp) async -> Finding {
    if let known, now < known.fetchedAt + Limits.providerKeysFresh, let key = known.keys.key(id, algorithm) {
      return .found(key)
    }
    if let running {
      await running.value
    } else if lastTry.map({ now >= $0 + Limits.providerKeysDistance || now < $0 }) ?? true {
      lastTry = now
      // A task of its own: whoever was first may leave, the others still want the keys.
      let task = Task { await refresh(at: now) }
      running = task
      await task.value
      running = nil
    }
    guard let known, now < known.fetchedAt + Limits.providerKeysStale else { return .unavailable }
    guard let key = known.keys.key(id, algorithm) else { return .unknown }
    return .found(key)
  }

  private func refresh(at now: Timestamp) async {
    do {
      let address: String
      if let configured = provider.keysAddress {
        address = configured
      } else {
        address = try await discovered()
      }
      known = (try ProviderKeySet(parsing: try await document(address)), now)
    } catch {
      logger.warning(
        "the keys of an OpenID provider cannot be fetched",
        metadata: ["provider": "\(provider.name)", "cause": "\(error)"])
    }
  }

  /// What the discovery document says, which must be this issuer's (OpenID Connect Discovery section 4.3).
  private func discovered() async throws -> String {
    let json = try JSONValue(parsing: try await document(provider.discoveryAddress))
    guard json["issuer"]?.string == provider.issuer else {
      throw TransferError("the discovery document is of another issuer", isRetryable: false)
    }
    guard let address = json["jwks_uri"]?.string, OpenIDProvider.isAcceptable(address) else {
      throw TransferError("the discovery document names no acceptable jwks_uri", isRetryable: false)
    }
    return address
  }

  private func document(_ address: String) async throws(TransferError) -> [UInt8] {
    let answer = try await fetch(
      HTTPRequest(
        address, fields: [("Accept", "application/json")], authoritiesFile: provider.authoritiesFile))
    guard answer.status == 200 else {
      throw TransferError("\(address) answers \(answer.status)", isRetryable: answer.isRetryable)
    }
    return answer.body
  }
}
