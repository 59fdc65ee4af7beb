import LatchkeyModel
import Storage
import Testing

/// What one row of all instances says, when forty change it at the same moment (C3). Engines for one process have none.
@Suite("C3: what instances share is changed by one after the other")
struct SharedRowsAtOnceTests {
  private func forty<Outcome: Sendable>(
    _ ask: @escaping @Sendable (UInt8) async throws -> Outcome
  ) async throws -> [Outcome] {
    try await withThrowingTaskGroup(of: Outcome.self) { group in
      for number in 0..<40 as Range<UInt8> { group.addTask { try await ask(number) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
  }

  @Test("C3: of forty that write a document each has the next number", arguments: [Engine.postgresql])
  func documents(_ engine: Engine) async throws {
    let documents = try #require(try await Store(engine).storage.sharedDocuments)
    let before = try await forty { number -> Int64 in
      let hash = [UInt8](repeating: number, count: 32)
      return try await documents.change("document", to: [number], hash: hash, record: nil) { current, _ in
        (isWanted: true, outcome: current?.number ?? 0)
      }
    }
    let last = try await documents.find("document")
    #expect(before.sorted() == Array(0..<40))
    #expect(last?.number == 40)
  }

  @Test("C3: of forty that put a key in the place of all others one is left", arguments: [Engine.postgresql])
  func keys(_ engine: Engine) async throws {
    let rows = try #require(try await Store(engine).storage.sharedSigningKeys)
    let before = try await forty { number -> Int in
      let key = SealedSigningKey(id: "\(number)", notBefore: Sample.now, sealed: [number])
      let changed = try await rows.change { found -> (change: SealedSigningKeyChange, outcome: Int) in
        (change: SealedSigningKeyChange(new: [key], gone: found.keys.map(\.id)), outcome: found.keys.count)
      }
      return changed.outcome
    }
    let left = try await rows.all().keys
    #expect(before.sorted() == [0] + [Int](repeating: 1, count: 39))
    #expect(left.count == 1)
  }
}
