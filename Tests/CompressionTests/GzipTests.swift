import Testing

@testable import Compression

@Suite struct GzipTests {
  private func compressed(_ bytes: [UInt8]) throws -> [UInt8] {
    var out: [UInt8] = []
    // Read within the closures only.
    try unsafe bytes.withUnsafeBytes { bytes in
      unsafe try Gzip.compress(bytes) { unsafe out.append(contentsOf: $0) }
    }
    return out
  }

  private func expanded(_ bytes: [UInt8], limit: Int) throws -> [UInt8] {
    var out: [UInt8] = []
    // As above.
    try unsafe bytes.withUnsafeBytes { bytes in
      unsafe try Gzip.decompress(bytes, limit: limit) { unsafe out.append(contentsOf: $0) }
    }
    return out
  }

  private func sample(_ count: Int) -> [UInt8] {
    // Half repetition, half noise, so that it neither vanishes nor resists.
    (0..<count).map { index -> UInt8 in
      if index % 64 < 32 { return UInt8(index % 7) }
      let noise = index &* index &* 2_654_435_761
      return UInt8(truncatingIfNeeded: noise >> 13)
    }
  }

  @Test("What is compressed expands to itself", arguments: [0, 1, 100, 16_384, 16_385, 70_000, 1_000_000])
  func roundTrip(count: Int) throws {
    let bytes = sample(count)
    let small = try compressed(bytes)
    #expect(small.starts(with: [0x1f, 0x8b, 8]))
    #expect(try expanded(small, limit: count) == bytes)
  }

  @Test("A member that another tool made expands")
  func foreign() throws {
    // printf 'latchkey' | gzip -n
    let bytes: [UInt8] = [
      0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xcb, 0x49, 0x2c, 0x49, 0xce, 0xc8, 0x4e, 0xad,
      0x04, 0x00, 0xd1, 0xc2, 0xc5, 0x0a, 0x08, 0x00, 0x00, 0x00,
    ]
    #expect(try expanded(bytes, limit: 8) == Array("latchkey".utf8))
  }

  @Test("Members that follow one another expand to one text")
  func members() throws {
    let two = try compressed([1, 2, 3]) + compressed([]) + compressed([4])
    #expect(try expanded(two, limit: 10) == [1, 2, 3, 4])
  }

  @Test("The limit is exact, and a bomb yields not one byte beyond it")
  func limit() throws {
    let bomb = try compressed([UInt8](repeating: 0, count: 50_000_000))
    #expect(bomb.count < 300_000)
    var seen = 0
    let error = #expect(throws: CompressionError.self) {
      try unsafe bomb.withUnsafeBytes { bytes in
        unsafe try Gzip.decompress(bytes, limit: 65_536) { seen += $0.count }
      }
    }
    #expect(error == .overLimit)
    #expect(seen <= 65_536)
    let exact = try compressed(sample(1000))
    #expect(try expanded(exact, limit: 1000).count == 1000)
    #expect(throws: CompressionError.overLimit) { try expanded(exact, limit: 999) }
  }

  @Test("Cut anywhere, it is truncated; changed, it is corrupt or says so")
  func damage() throws {
    let bytes = sample(300)
    let small = try compressed(bytes)
    for count in 0..<small.count {
      #expect(throws: CompressionError.truncated) { try expanded(Array(small.prefix(count)), limit: 1000) }
    }
    for index in small.indices {
      var changed = small
      changed[index] ^= 0x55
      // Header fields that say nothing about the text may change; the text itself never does.
      if let text = try? expanded(changed, limit: 1000) { #expect(text == bytes) }
    }
    #expect(throws: CompressionError.corrupt) { try expanded(small + [1, 2, 3], limit: 1000) }
  }

  @Test("A coder is sound after one that failed")
  func reuse() throws {
    for _ in 0..<20 {
      #expect(throws: CompressionError.self) { try expanded([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], limit: 10) }
      #expect(try expanded(compressed([9, 9, 9]), limit: 3) == [9, 9, 9])
    }
  }

  @Test("Tasks that compress at once do not disturb each other")
  func concurrent() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for index in 0..<16 {
        group.addTask {
          for round in 0..<50 {
            let bytes = sample(index * 1000 + round)
            let again = try expanded(compressed(bytes), limit: bytes.count)
            #expect(again == bytes)
          }
        }
      }
      try await group.waitForAll()
    }
  }
}
