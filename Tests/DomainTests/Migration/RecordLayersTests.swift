import LatchkeyModel
import TestSupport
import Testing

@Suite("Layers that merges lay over a record")
struct RecordLayersTests {
  @Test("M2: thousands of random sequences of merges, changes and merges taken back leave what the model says")
  func randomSequences() throws {
    let seed = SeededRandom.seed()
    var random = SeededRandom(seed: seed)
    var isLeft = 0
    for round in 0..<4000 {
      var account = LayeredAccount(random: random)
      var model = MergeModel()
      for step in 0..<Int.random(in: 3...16, using: &random) {
        account.happen(&model, &random)
        try #require(
          account.records == model.records, "LATCHKEY_TEST_SEED=\(seed), sequence \(round), step \(step)")
      }
      for id in account.merges.shuffled(using: &random) {
        isLeft += account.undo(id)
        model.undo(id)
        try #require(account.records == model.records, "LATCHKEY_TEST_SEED=\(seed), sequence \(round)")
      }
    }
    #expect(isLeft > 0)
  }

  private func layer(
    _ number: UInt8, _ policy: MigrationPolicy, _ outcome: MergeOutcome, at position: Int64,
    found: Int64?, old: RecordContent?
  ) throws -> RecordLayers.Layer {
    RecordLayers.Layer(
      migration: MigrationID(from: RandomSource { [UInt8](repeating: number, count: $0) }), source: try name(),
      policy: policy, isDecided: false, outcome: outcome, position: position, found: found, revision: position, old: old
    )
  }

  private func name() throws -> RecordName {
    RecordName(collection: try #require(CollectionName("cart")), key: try #require(RecordKey("a")))
  }

  private func content(_ number: Int64) -> RecordContent {
    RecordContent(value: [1], number: number, updatedAt: Timestamp(millisecondsSinceEpoch: 0))
  }

  @Test(
    "M2: a line that its owner removed and added anew has nothing taken off it, nor one that has less than was added")
  func newLine() throws {
    let source = try name()
    let summed = try layer(1, .sum, .summed, at: 5, found: 4, old: content(3))
    for (number, born, left) in [(8, 1, 6), (8, 6, 8), (1, 1, 1), (2, 1, 0), (0, 1, 0), (-1, 1, -3)]
      as [(Int64, Int64, Int64)]
    {
      let held = RecordLayers.Held(content: content(number), revision: 9, born: born)
      let removal = RecordLayers(held: held, layers: [summed]).removing(source, of: summed.migration) { _ in
        content(2)
      }
      #expect(removal?.content?.number == left && removal?.isLeft == true)
    }
    let gone = RecordLayers(held: nil, layers: [summed]).removing(source, of: summed.migration) { _ in
      content(2)
    }
    #expect(gone?.content == nil && gone?.isChange == false && gone?.isLeft == true)
  }

  @Test(
    "M2: what an earlier release merged is taken back as it was then: without a note of what it found, nothing lies beneath"
  )
  func withoutNotes() throws {
    let first = try layer(1, .keepSource, .replaced, at: 5, found: nil, old: content(3))
    let second = try layer(2, .keepSource, .replaced, at: 6, found: nil, old: content(4))
    let held = RecordLayers.Held(content: content(7), revision: 6, born: 0)
    let layers = RecordLayers(held: held, layers: [second, first])
    let under = layers.removing(first.source, of: first.migration) { _ in nil }
    #expect(under?.content == content(7) && under?.isChange == false && under?.isLeft == true)
    let over = layers.removing(second.source, of: second.migration) { _ in nil }
    #expect(over?.content == content(4) && over?.isChange == true && over?.isLeft == false)
  }
}

/// One account in memory, whose records are merged and taken back by `RecordLayers` alone.
private struct LayeredAccount {
  private var version: Int64 = 0
  private var held: [RecordName: RecordLayers.Held] = [:]
  private var layers: [RecordName: [RecordLayers.Layer]] = [:]
  private var guests: [MigrationID: [RecordName: RecordContent]] = [:]
  private let rules: CollectionRules
  private let names: [RecordName]

  var records: [RecordName: RecordContent] { held.mapValues(\.content) }
  var merges: [MigrationID] { guests.keys.sorted() }

  init(random: SeededRandom) {
    var rules = CollectionRules([:])
    var names: [RecordName] = []
    // APPEND and ASK lay nothing over anything.
    for policy in MigrationPolicy.allCases where policy != .append && policy != .ask {
      guard let collection = CollectionName(policy.rawValue.lowercased()), let key = RecordKey("a") else { continue }
      rules.rules[collection] = CollectionRules.Rule(policy: policy)
      names.append(RecordName(collection: collection, key: key))
    }
    (self.rules, self.names) = (rules, names)
  }

  mutating func happen(_ model: inout MergeModel, _ random: inout SeededRandom) {
    let name = names.randomElement(using: &random) ?? names[0]
    switch Int.random(in: 0..<8, using: &random) {
    case 0...3:
      let bytes = random.bytes(16)
      let id = MigrationID(from: RandomSource { _ in bytes })
      var guest: [RecordName: RecordContent] = [:]
      for name in names where Int.random(in: 0..<3, using: &random) > 0 { guest[name] = Self.content(&random) }
      merge(guest, as: id)
      model.merge(guest, as: id, by: rules)
    case 4, 5:
      let content = Self.content(&random)
      version += 1
      held[name] = RecordLayers.Held(content: content, revision: version, born: held[name]?.born ?? version)
      model.put(name, content)
    case 6:
      version += 1
      held[name] = nil
      model.delete(name)
    default:
      guard let id = merges.randomElement(using: &random) else { return }
      undo(id)
      model.undo(id)
    }
  }

  private static func content(_ random: inout SeededRandom) -> RecordContent {
    let number: Int64 = Int.random(in: 0..<8, using: &random) == 0 ? .max - 3 : .random(in: -2...6, using: &random)
    return RecordContent(
      value: random.bytes(2), number: number,
      updatedAt: Timestamp(millisecondsSinceEpoch: .random(in: 0...3, using: &random)))
  }

  private mutating func merge(_ guest: [RecordName: RecordContent], as id: MigrationID) {
    guests[id] = guest
    for (name, content) in guest {
      version += 1
      let (policy, before) = (rules[name.collection].policy, held[name])
      let decision = policy.merge(content, into: before?.content, hasRoom: true)
      guard decision.conflict == nil else { continue }
      let isWritten = decision.content != nil
      layers[name, default: []].append(
        RecordLayers.Layer(
          migration: id, source: name, policy: policy, isDecided: false, outcome: decision.outcome, position: version,
          found: before?.revision ?? 0, revision: isWritten ? version : nil, old: isWritten ? before?.content : nil))
      if let merged = decision.content {
        held[name] = RecordLayers.Held(content: merged, revision: version, born: before?.born ?? version)
      }
    }
  }

  /// Returns how many records were left.
  @discardableResult
  mutating func undo(_ id: MigrationID) -> Int {
    var left = 0
    for name in names {
      let state = RecordLayers(held: held[name], layers: layers[name] ?? [])
      let removal = state.removing(name, of: id) { guests[$0.migration]?[$0.source] }
      layers[name]?.removeAll { $0.migration == id }
      guard let removal else { continue }
      if removal.isChange {
        version += 1
        held[name] = removal.content.map {
          RecordLayers.Held(content: $0, revision: version, born: held[name]?.born ?? 0)
        }
      }
      for layer in removal.remembered(at: held[name]?.revision ?? 0) {
        if let index = layers[name]?.firstIndex(where: { $0.migration == layer.migration }) {
          layers[name]?[index] = layer
        }
      }
      layers[name]?.removeAll { layer in removal.unfit.contains { $0.layer.migration == layer.migration } }
      left += removal.isLeft ? 1 : 0
    }
    guests[id] = nil
    return left
  }
}
