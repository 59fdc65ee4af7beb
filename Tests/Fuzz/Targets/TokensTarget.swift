import Cryptography
import JSON
import LatchkeyModel

/// Access tokens and the JSON in them, keys included.
struct TokensTarget: FuzzTarget {
  let name = "tokens"

  private static let verifier: AccessTokenVerifier = {
    guard let key = try? P256PrivateKey() else { preconditionFailure("no key") }
    return AccessTokenVerifier(
      keys: JSONWebKeySet(keys: [JSONWebKeySet.Key(id: "k", publicKey: key.publicKey)]),
      issuer: "http://127.0.0.1:7401",
      audience: "latchkey"
    )
  }()

  func run(_ input: UnsafeRawBufferPointer) {
    // Copied.
    let bytes = unsafe Array(input)
    let text = String(decoding: bytes, as: UTF8.self)
    let now = Timestamp(secondsSinceEpoch: 1_700_000_000)
    let isAccepted = (try? Self.verifier.verify(text, at: now)) != nil
    precondition(!isAccepted, "a token that nobody has signed")

    guard let json = try? JSONValue(parsing: bytes) else { return }
    guard let again = try? JSONValue(parsing: json.encoded()) else { preconditionFailure("JSON that is not JSON") }
    precondition(again.encoded() == json.encoded(), "JSON changes each time it is written")
    _ = try? P256PublicKey(jwk: json)
    _ = try? JSONWebKeySet(parsing: bytes)
  }
}
