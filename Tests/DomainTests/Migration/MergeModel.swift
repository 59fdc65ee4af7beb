import LatchkeyModel

/// What an account holds after merges into it, changes by its owner, and merges taken back in any order: the definition,
/// without storage.
///
/// Each merge lays its guest's record over what is there; taking it back takes its layer out, and what lies over it is
/// laid anew. What the owner writes is the new ground, and what they delete is gone: no layer beneath counts any more,
/// except that a guest's part of a sum can still be taken off the line that it went into.
struct MergeModel {
  struct Layer {
    let merge: MigrationID
    let policy: MigrationPolicy
    let guest: RecordContent
    /// A person decided that the guest's record is dropped.
    var isDropped = false
  }

  struct Slot {
    var ground: RecordContent?
    var layers: [Layer] = []
    /// Added to a line that the owner has changed since.
    var added: [(merge: MigrationID, number: Int64)] = []

    /// What lies there; a layer that cannot be added is not in it.
    func lie() -> (content: RecordContent?, outcomes: [MergeDecision]) {
      var content = ground
      var outcomes: [MergeDecision] = []
      for layer in layers {
        let decision = layer.isDropped ? .keep : layer.policy.merge(layer.guest, into: content, hasRoom: true)
        if let merged = decision.content { content = merged }
        outcomes.append(decision)
      }
      return (content, outcomes)
    }
  }

  private(set) var slots: [RecordName: Slot] = [:]
  /// The guest's records that wait for a person, by merge.
  private(set) var setAside: [MigrationID: [RecordName: RecordContent]] = [:]

  var records: [RecordName: RecordContent] { slots.compactMapValues { $0.lie().content } }

  mutating func merge(_ records: [RecordName: RecordContent], as id: MigrationID, by rules: CollectionRules) {
    for (name, content) in records {
      lay(Layer(merge: id, policy: rules[name.collection].policy, guest: content), at: name)
    }
  }

  /// Returns false when the record is set aside.
  @discardableResult
  private mutating func lay(_ layer: Layer, at name: RecordName) -> Bool {
    var name = name
    var slot = slots[name] ?? Slot()
    let held = slot.lie().content
    if layer.policy == .append, held != nil, let key = name.key.appended(by: layer.merge) {
      name = RecordName(collection: name.collection, key: key)
      slot = slots[name] ?? Slot()
    }
    slot.layers.append(layer)
    if slot.lie().outcomes.last?.conflict != nil {
      setAside[layer.merge, default: [:]][name] = layer.guest
      return false
    }
    slots[name] = slot
    return true
  }

  mutating func resolve(_ name: RecordName, of id: MigrationID, by policy: MigrationPolicy) {
    guard let guest = setAside[id]?.removeValue(forKey: name) else { return }
    lay(Layer(merge: id, policy: policy, guest: guest, isDropped: policy == .keepTarget), at: name)
  }

  mutating func put(_ name: RecordName, _ content: RecordContent) {
    var slot = slots[name] ?? Slot()
    if slot.lie().content == nil { slot.added = [] }
    for (layer, decision) in zip(slot.layers, slot.lie().outcomes) where layer.policy == .sum {
      if case .combine = decision { slot.added.append((layer.merge, layer.guest.number)) }
    }
    (slot.ground, slot.layers) = (content, [])
    slots[name] = slot
  }

  mutating func delete(_ name: RecordName) { slots[name] = nil }

  mutating func undo(_ id: MigrationID) {
    setAside[id] = nil
    for name in slots.keys.sorted() {
      guard var slot = slots[name] else { continue }
      slot.layers.removeAll { $0.merge == id }
      for added in slot.added where added.merge == id { slot.takeOff(added.number) }
      slot.added.removeAll { $0.merge == id }
      slots[name] = slot
      for (layer, decision) in zip(slot.layers, slot.lie().outcomes) where decision.conflict != nil {
        // What can be added no longer waits for a person.
        setAside[layer.merge, default: [:]][name] = layer.guest
        slots[name]?.layers.removeAll { $0.merge == layer.merge }
      }
    }
  }
}

extension MergeModel.Slot {
  /// Nobody has less than nothing of what they had some of.
  mutating func takeOff(_ number: Int64) {
    guard var ground else { return }
    let (left, overflows) = ground.number.subtractingReportingOverflow(number)
    guard !overflows, left == 0 || left.signum() == ground.number.signum() else { return }
    ground.number = left
    self.ground = ground
  }
}
