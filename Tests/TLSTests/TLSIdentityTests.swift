import TLS
import TestSupport
import Testing

@Suite("Certificates and keys")
struct TLSIdentityTests {
  let authority: TestAuthority

  init() throws {
    authority = try TestAuthority()
  }

  @Test("a key of another certificate is refused")
  func otherKey() throws {
    let (certificate, _) = try authority.leaf("DNS:a.test")
    let (_, key) = try authority.leaf("DNS:b.test")
    #expect(
      throws: TLSError(.configure, .us, .unusableIdentity("the private key belongs to another certificate"))
    ) {
      try TLSIdentity(certificateChain: certificate, privateKey: key)
    }
  }

  @Test(
    "what is not PEM is refused",
    arguments: ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
  )
  func notPEM(text: String) throws {
    let (_, key) = try authority.leaf("DNS:a.test")
    #expect(throws: TLSError.self) { try TLSIdentity(certificateChain: Array(text.utf8), privateKey: key) }
    #expect(throws: TLSError.self) { try TLSTrust(pem: Array(text.utf8)) }
  }

  @Test("a chain in which a later certificate is broken is refused, not cut short")
  func brokenChain() throws {
    let (certificate, key) = try authority.leaf("DNS:a.test")
    let broken = certificate + Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8)
    #expect(throws: TLSError.self) { try TLSIdentity(certificateChain: broken, privateKey: key) }
  }

  @Test("an encrypted key is refused without asking for a password on the terminal")
  func encryptedKey() throws {
    let (certificate, key) = try authority.encryptedLeaf("DNS:a.test")
    #expect(
      throws: TLSError(.configure, .us, .unusableIdentity("the private key is not PEM in the clear"))
    ) {
      try TLSIdentity(certificateChain: certificate, privateKey: key)
    }
  }
}
