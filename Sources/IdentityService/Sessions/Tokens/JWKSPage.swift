import TransportServer

/// `/.well-known/jwks.json`: the key set for verifiers that speak HTTP (RFC 7517 section 5).
package enum JWKSPage {
  package static func make(_ keys: SigningKeyRing) -> Page {
    Page("GET", "/.well-known/jwks.json") { _ in
      guard let published = keys.published else {
        // A set that lacks a key would have its tokens refused.
        var response = PageResponse(status: 503, text: "which keys sign is not known for a moment\n")
        response.headers.append(("retry-after", "1"))
        return response
      }
      return PageResponse(
        headers: [
          ("content-type", "application/jwk-set+json"),
          ("cache-control", "public, max-age=\(Limits.keySetMaxAgeSeconds)"),
          // Public keys are for everyone, browsers on other origins too.
          ("access-control-allow-origin", "*"),
        ],
        body: published.json.encoded()
      )
    }
  }
}
