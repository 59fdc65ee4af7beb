import TransportServer

/// `/.well-known/jwks.json`: the key set for verifiers that speak HTTP (RFC 7517 section 5).
package enum JWKSPage {
  package static func make(_ keys: SigningKeyRing) -> Page {
    Page("GET", "/.well-known/jwks.json") { _ in
      PageResponse(
        headers: [
          ("content-type", "application/jwk-set+json"),
          ("cache-control", "public, max-age=\(Limits.keySetMaxAgeSeconds)"),
          // Public keys are for everyone, browsers on other origins too.
          ("access-control-allow-origin", "*"),
        ],
        body: keys.published.json.encoded()
      )
    }
  }
}
