import Cryptography
import Glibc
import ServiceRuntime
import TestSupport
import Testing

@testable import IdentityService

@Suite("The document of OpenID providers")
struct OpenIDProviderTests {
  private let folder: TemporaryFolder

  init() throws {
    folder = try TemporaryFolder()
  }

  private func read(_ text: String) throws -> [OpenIDProvider] {
    let path = "\(folder.path)/oidc.json"
    // The path and the mode are copied for the call; the file is closed here.
    let file = try unsafe fopen(path, "w").orThrow()
    unsafe fputs(text, file)
    unsafe fclose(file)
    return try OpenIDProvider.read(path)
  }

  private func entry(_ more: String = "", issuer: String = "https://id.example") -> String {
    #"{"name": "example", "issuer": "\#(issuer)", "client_ids": ["a"]\#(more)}"#
  }

  @Test("A provider needs a name, an issuer and our names there; the rest has defaults")
  func reads() throws {
    let one = try read(#"{"providers": [\#(entry())]}"#)
    #expect(one.map(\.issuer) == ["https://id.example"] && one[0].algorithms == [.rs256, .es256])
    let more =
      #", "algorithms": ["RS256"], "jwks_uri": "http://127.0.0.1:8080/k", "ca_file": "\#(folder.path)/oidc.json""#
    let full = try read(#"{"providers": [\#(entry(more, issuer: "http://localhost:9000"))]}"#)
    #expect(full[0].algorithms == [.rs256] && full[0].keysAddress == "http://127.0.0.1:8080/k")
    #expect(full[0].authoritiesFile == "\(folder.path)/oidc.json")
    #expect(try read(#"{"providers": []}"#).isEmpty)
  }

  @Test(
    "What is wrong with the document is said before the service starts",
    arguments: [
      "", "[]", "{}", #"{"providers": 1}"#, #"{"providers": [1]}"#, #"{"providers": [], "more": 1}"#,
      #"{"providers": [{"name": "x", "issuer": "https://a", "client_ids": []}]}"#,
      #"{"providers": [{"name": "", "issuer": "https://a", "client_ids": ["a"]}]}"#,
      #"{"providers": [{"name": "x", "issuer": "http://id.example", "client_ids": ["a"]}]}"#,
      #"{"providers": [{"name": "x", "issuer": "https://a", "client_ids": ["a"], "algorithms": ["HS256"]}]}"#,
      #"{"providers": [{"name": "x", "issuer": "https://a", "client_ids": ["a"], "algorithms": []}]}"#,
      #"{"providers": [{"name": "x", "issuer": "https://a", "client_ids": ["a"], "jwks_uri": "ftp://x"}]}"#,
      #"{"providers": [{"name": "x", "issuer": "https://a", "client_ids": ["a"], "jwks_url": "https://x"}]}"#,
      #"{"providers": [{"name": "x", "issuer": "https://a", "client_ids": ["a"], "ca_file": "/nowhere"}]}"#,
      #"{"providers": [{"name": "x", "issuer": "https://a", "client_ids": ["a"]}, {"name": "y", "#
        + #""issuer": "https://a", "client_ids": ["a"]}]}"#,
    ])
  func refuses(_ text: String) {
    #expect(throws: ConfigurationError.self) { try read(text) }
  }

  @Test("R6: keys come over TLS or from this machine, and nothing that only looks like it")
  func addresses() {
    for address in [
      "https://provider.example/keys", "https://provider.example", "http://localhost:80/keys", "http://127.0.0.1:8080",
      "http://[::1]:8080/keys?a=b@c",
    ] {
      #expect(OpenIDProvider.isAcceptable(address), "\(address)")
    }
    for address in [
      "http://localhost:x@evil.example/", "http://localhost:80@evil.example/keys", "http://localhost:@evil.example",
      "http://localhost:80?@evil.example/", "http://localhost:80#@evil.example/", "http://localhost:80\\@evil.example/",
      "http://localhost:/keys", "http://localhost/keys", "http://127.0.0.1.evil.example:80/",
      "http://provider.example:80/",
      "https://", "https:///keys", "https://user@provider.example/keys", "ftp://localhost:80/",
      "https:provider.example",
      "http://localhost:8 0/", "",
    ] {
      #expect(!OpenIDProvider.isAcceptable(address), "\(address)")
    }
  }
}
