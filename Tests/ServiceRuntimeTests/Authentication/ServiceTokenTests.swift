import Cryptography
import Glibc
import Testing

@testable import ServiceRuntime

@Suite("Service token")
final class ServiceTokenTests {
  let path = "/tmp/latchkey-token-\(SecureRandom.bytes(8).map { String($0, radix: 16) }.joined())"

  deinit {
    // The path is copied for the call.
    _ = unsafe unlink(path)
  }

  @Test("the first service makes it, the others read the same")
  func shared() throws {
    let one = try ServiceToken.load(path)
    let two = try ServiceToken.load(path)
    #expect(one.metadata == two.metadata)
    let value = try #require(one.metadata["authorization"])
    #expect(value.hasPrefix("Bearer lks_"))
    #expect(two.matches(String(value.dropFirst("Bearer ".count))))
    #expect("\(one)" == "[redacted]")
    #expect(String(reflecting: one) == "[redacted]")
  }

  @Test("R3: any other text does not match, however near")
  func matching() throws {
    let token = try ServiceToken.load(path)
    let text = try #require(token.metadata["authorization"]?.dropFirst("Bearer ".count))
    #expect(!token.matches(""))
    #expect(!token.matches(String(text.dropLast())))
    #expect(!token.matches(text + "A"))
    #expect(!token.matches(text.lowercased()) || text == text.lowercased()[...])
  }

  @Test("a file that others may read, or that holds something else, is refused")
  func badFiles() throws {
    try SecretFile.create(path, Array("not a token\n".utf8))
    #expect(throws: ConfigurationError.self) { try ServiceToken.load(path) }
    try SecretFile.replace(path, [])
    #expect(throws: ConfigurationError.self) { try ServiceToken.load(path) }
    _ = unsafe unlink(path)
    _ = try ServiceToken.load(path)
    _ = unsafe chmod(path, 0o644)
    #expect(throws: ConfigurationError.self) { try ServiceToken.load(path) }
  }
}
