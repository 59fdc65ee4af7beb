/// The cost of one Argon2id hash (RFC 9106).
package struct Argon2Parameters: Sendable, Equatable {
  /// Memory in KiB.
  package var memoryKiB: UInt32
  /// Passes over the memory.
  package var passes: UInt32
  /// Lanes, each computed in turn on the hasher's thread.
  package var lanes: UInt32

  /// 19 MiB, two passes, one lane: what OWASP's Password Storage Cheat Sheet asks for at least. About 60 ms here.
  package static let standard = Argon2Parameters(memoryKiB: 19 * 1024, passes: 2, lanes: 1)

  package init(memoryKiB: UInt32, passes: UInt32, lanes: UInt32) {
    self.memoryKiB = memoryKiB
    self.passes = passes
    self.lanes = lanes
  }

  /// Whether libargon2 can compute with them within this module's bounds.
  package var areUsable: Bool {
    (1...Limits.argon2Lanes).contains(lanes) && (1...Limits.argon2Passes).contains(passes)
      && memoryKiB >= 8 * lanes && memoryKiB <= Limits.argon2MemoryKiB
  }
}
