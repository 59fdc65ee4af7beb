import Synchronization

/// Where random bytes come from. Passed in wherever randomness matters, so that a test needs no luck.
package struct RandomSource: Sendable {
  private let generate: @Sendable (Int) -> [UInt8]
  private let neighbourhood: Neighbourhood?
  /// The cell of the ids and codes that are made from it.
  package let cell: Cell

  /// `generate` answers with as many bytes as it is asked for; outside tests it is the machine's secure source.
  package init(in cell: Cell = .first, _ generate: @escaping @Sendable (Int) -> [UInt8]) {
    self.init(generate, nil, cell)
  }

  private init(_ generate: @escaping @Sendable (Int) -> [UInt8], _ neighbourhood: Neighbourhood?, _ cell: Cell) {
    self.generate = generate
    self.neighbourhood = neighbourhood
    self.cell = cell
  }

  package func bytes(_ count: Int) -> [UInt8] {
    generate(count)
  }

  /// Random bytes of which those that are asked for at one time share the first `common`, up to six, where they are to have
  /// neighbours.
  func bytes(_ count: Int, sharing common: Int) -> [UInt8] {
    let start = neighbourhood?.next(generate).prefix(common) ?? []
    return start + generate(count - start.count)
  }

  /// 16 bytes for an identifier: 128 random bits, or with neighbours 80 behind a common beginning of 48. In another cell
  /// than 0 they begin with its number, and have 16 random bits fewer.
  func identifier() -> [UInt8] {
    let start = (cell == .first ? [] : cell.bytes) + (neighbourhood?.next(generate) ?? [])
    return start + generate(16 - start.count)
  }

  /// The same source, whose identifiers come in groups with a common random beginning.
  ///
  /// What is made at one time then stands side by side in every index by identifier, and a group of commits changes a
  /// few pages where identifiers spread over the whole index would change one each. The beginning says nothing: it is
  /// no clock, and the rest of each identifier is as unpredictable as before.
  package func withNeighbouringIdentifiers() -> RandomSource {
    RandomSource(generate, Neighbourhood(), cell)
  }
}

/// The beginning that a group of identifiers shares.
private final class Neighbourhood: Sendable {
  static let prefixBytes = 6
  /// Two or three pages of an index.
  private static let members = 64

  private let state = Mutex<(prefix: [UInt8], left: Int)>(([], 0))

  func next(_ generate: (Int) -> [UInt8]) -> [UInt8] {
    state.withLock { state in
      if state.left == 0 { state = (generate(Self.prefixBytes), Self.members) }
      state.left -= 1
      return state.prefix
    }
  }
}
