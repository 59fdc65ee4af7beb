import Testing

@testable import Cryptography

@Suite("Password hashing")
struct PasswordHasherTests {
  /// Cheap on purpose: these tests are about behaviour, not cost.
  static let cheap = Argon2Parameters(memoryKiB: 64, passes: 1, lanes: 1)

  @Test("a password verifies against its own hash only, and each hash has its own salt")
  func roundTrip() async throws {
    let hasher = PasswordHasher(parameters: Self.cheap)
    let one = try await hasher.hash("correct horse")
    let two = try await hasher.hash("correct horse")
    #expect(one != two)
    #expect(one.hasPrefix("$argon2id$v=19$m=64,t=1,p=1$"))
    #expect(try await hasher.verify("correct horse", against: one))
    #expect(try await hasher.verify("correct horse", against: two))
    #expect(try await !hasher.verify("correct horsf", against: one))
    #expect(try await !hasher.verify("", against: one))
  }

  @Test("a hash from another Argon2id implementation verifies")
  func foreignHash() async throws {
    // From the reference implementation's own test file.
    let stored = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
    let hasher = PasswordHasher(parameters: Self.cheap)
    #expect(try await hasher.verify("password", against: stored))
    #expect(try await !hasher.verify("passwore", against: stored))
    #expect(hasher.needsRehash(stored))
  }

  @Test("a password with a zero byte is not cut short")
  func zeroByte() async throws {
    let hasher = PasswordHasher(parameters: Self.cheap)
    let stored = try await hasher.hash([1, 0, 2])
    #expect(try await hasher.verify([1, 0, 2], against: stored))
    #expect(try await !hasher.verify([1, 0, 3], against: stored))
    #expect(try await !hasher.verify([1], against: stored))
  }

  @Test("only another cost asks for a rehash")
  func needsRehash() async throws {
    let hasher = PasswordHasher(parameters: Self.cheap)
    #expect(try await !hasher.needsRehash(hasher.hash("x")))
    let dearer = PasswordHasher(parameters: Argon2Parameters(memoryKiB: 128, passes: 1, lanes: 1))
    #expect(try await dearer.needsRehash(hasher.hash("x")))
    #expect(dearer.needsRehash("nonsense"))
  }

  @Test("the standard cost is OWASP's minimum: 19 MiB, two passes")
  func standard() {
    #expect(Argon2Parameters.standard == Argon2Parameters(memoryKiB: 19456, passes: 2, lanes: 1))
    #expect(Argon2Parameters.standard.areUsable)
  }

  @Test(
    "a stored text that is no bounded Argon2id hash is refused, not computed",
    arguments: [
      "", "x", "$argon2i$v=19$m=64,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAA",
      "$argon2id$v=16$m=64,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAA",
      "$argon2id$v=19$m=4294967295,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAA",
      "$argon2id$v=19$m=64,t=4294967295,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAA",
      "$argon2id$v=19$m=64,t=1,p=0$AAAAAAAAAAA$AAAAAAAAAAAAAAAA", "$argon2id$v=19$m=64,t=1$AAAAAAAAAAA$AAAA",
      "$argon2id$v=19$m=64,t=1,p=1$$AAAAAAAAAAAAAAAA", "$argon2id$v=19$m=64,t=1,p=1$AAAA\0AAAA$AAAAAAAAAAAAAAAA",
      "$argon2id$v=19$m=-64,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAA",
      "$argon2id$v=19$m=+64,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAA",
      "$argon2id$v=19$m=064,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAA",
    ]
  )
  func malformed(_ stored: String) async {
    let hasher = PasswordHasher(parameters: Self.cheap)
    await #expect(throws: PasswordHasherError.malformedHash) { try await hasher.verify("x", against: stored) }
  }

  @Test("what is stored says the same again, whatever the salt and the hash are")
  func storedForm() throws {
    for count in 4...64 {
      let stored = PHCString(Self.cheap, salt: SecureRandom.bytes(8 + count % 9), hash: SecureRandom.bytes(count))
      let read = try #require(PHCString(stored.text))
      #expect(read.salt == stored.salt && read.hash == stored.hash && read.parameters == stored.parameters)
    }
    #expect(PHCString(Self.cheap, salt: SecureRandom.bytes(7), hash: SecureRandom.bytes(32)).text.isEmpty == false)
    #expect(PHCString(PHCString(Self.cheap, salt: SecureRandom.bytes(7), hash: SecureRandom.bytes(32)).text) == nil)
    #expect(PHCString(PHCString(Self.cheap, salt: SecureRandom.bytes(8), hash: SecureRandom.bytes(3)).text) == nil)
  }

  @Test("R25: the comparison for an unknown account is a real one at the same cost")
  func dummy() async throws {
    let dummy = PHCString.dummy(Self.cheap)
    #expect(PHCString(dummy)?.parameters == Self.cheap)
    let hasher = PasswordHasher(parameters: Self.cheap)
    #expect(try await !hasher.verify("x", against: dummy))
    try await hasher.verifyDummy("x")
    // The cost is decided by the parameters, which an account's own hash shares with the one for nobody.
    let own = try await hasher.hash("right")
    #expect(PHCString(own)?.parameters == PHCString(dummy)?.parameters)
  }

  @Test("a full queue refuses at once; what was accepted is still computed")
  func overload() async throws {
    let hasher = PasswordHasher(threads: 1, queue: 2)
    let results = await withTaskGroup(of: Result<String, PasswordHasherError>.self) { group in
      for _ in 0..<20 {
        group.addTask {
          do throws(PasswordHasherError) {
            return .success(try await hasher.hash("x"))
          } catch {
            return .failure(error)
          }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    let refused = results.filter { $0 == .failure(.overloaded) }
    let computed = results.compactMap { try? $0.get() }
    #expect(refused.count + computed.count == 20)
    #expect(!refused.isEmpty)
    #expect(computed.count >= 2)
  }

  @Test("a password beyond the limit is refused, one at the limit is not")
  func longPassword() async throws {
    let hasher = PasswordHasher(parameters: Self.cheap)
    await #expect(throws: PasswordHasherError.passwordTooLong) {
      try await hasher.hash([UInt8](repeating: 65, count: Limits.passwordBytes + 1))
    }
    _ = try await hasher.hash([UInt8](repeating: 65, count: Limits.passwordBytes))
  }

  @Test("after stop nothing more is accepted")
  func stop() async {
    let hasher = PasswordHasher(parameters: Self.cheap)
    hasher.stop()
    await #expect(throws: PasswordHasherError.stopped) { try await hasher.hash("x") }
  }
}
