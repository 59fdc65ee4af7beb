import Testing

@testable import Cryptography

@Suite struct HashMemoryTests {
  @Test("a block serves one hash after another, two have their own, and what nobody uses is given back")
  func blocks() throws {
    let memory = HashMemory()
    let count = 64 * 1024
    let one = try unsafe #require(memory.take(count))
    let two = try unsafe #require(memory.take(count))
    #expect(unsafe one != two)
    // Both are `count` bytes of ours.
    unsafe one.initializeMemory(as: UInt8.self, repeating: 1, count: count)
    unsafe two.initializeMemory(as: UInt8.self, repeating: 2, count: count)
    #expect(unsafe one.load(as: UInt8.self) == 1)
    unsafe memory.keep(one, count)
    #expect(memory.keptBytes == count)
    let again = try unsafe #require(memory.take(count))
    #expect(unsafe again == one)
    #expect(memory.keptBytes == 0)
    unsafe memory.keep(again, count)
    unsafe memory.keep(two, count)
    #expect(memory.keptBytes == 2 * count)
    memory.giveBack()
    #expect(memory.keptBytes == 0)
  }

  @Test("hashes of an old cost and of today's keep their memory beside each other")
  func otherCost() throws {
    let memory = HashMemory()
    let old = try unsafe #require(memory.take(64 * 1024))
    unsafe memory.keep(old, 64 * 1024)
    let new = try unsafe #require(memory.take(128 * 1024))
    #expect(memory.keptBytes == 64 * 1024)
    unsafe memory.keep(new, 128 * 1024)
    #expect(unsafe memory.take(64 * 1024) == old)
    unsafe memory.keep(old, 64 * 1024)
    memory.giveBack()
    #expect(memory.keptBytes == 0)
  }

  @Test("a hash is the same in memory that another one has left and in new memory")
  func hashes() async throws {
    let hasher = PasswordHasher(parameters: Argon2Parameters(memoryKiB: 1024, passes: 1, lanes: 2))
    let stored = try await hasher.hash("x")
    HashMemory.shared.giveBack()
    #expect(try await hasher.verify("x", against: stored))
    HashMemory.shared.giveBack()
    #expect(try await !hasher.verify("y", against: stored))
  }
}
