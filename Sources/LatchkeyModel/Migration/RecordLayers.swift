/// What merges have laid over one record of an account, each over the one before, so that any of them can be taken out.
///
/// ```
/// what was there ──▶ layer ──▶ layer ──▶ layer ──▶ the record as it is
///                         found ┘   └ leaves
/// ```
/// A layer lies on the one before when it found the revision that the other left. Where it found another, the owner has
/// written in between: what lies beneath is theirs now, and stays. A layer that is taken out gives what it had found to
/// those above it, which are merged anew.
package struct RecordLayers: Sendable {
  package struct Layer: Sendable, Equatable {
    package let migration: MigrationID
    /// The guest's record that was merged.
    package let source: RecordName
    package let policy: MigrationPolicy
    /// Somebody decided so about this one record.
    package let isDecided: Bool
    package fileprivate(set) var outcome: MergeOutcome
    /// Grows from one layer of an account to the next, and stays.
    package let position: Int64
    /// The revision that the record had before; 0 when there was none, nil when it was not noted.
    package fileprivate(set) var found: Int64?
    /// The revision that the record had afterwards; nil when it was left as it was.
    package fileprivate(set) var revision: Int64?
    /// What was there before; nil for nothing, and when it was left as it was.
    package fileprivate(set) var old: RecordContent?

    package init(
      migration: MigrationID,
      source: RecordName,
      policy: MigrationPolicy,
      isDecided: Bool,
      outcome: MergeOutcome,
      position: Int64,
      found: Int64?,
      revision: Int64?,
      old: RecordContent?
    ) {
      self.migration = migration
      self.source = source
      self.policy = policy
      self.isDecided = isDecided
      self.outcome = outcome
      self.position = position
      self.found = found
      self.revision = revision
      self.old = old
    }

    package var isWritten: Bool { revision != nil }

    /// It added to a line that was there.
    fileprivate var isAdded: Bool { policy == .sum && outcome == .summed }

    /// The revision that the next layer found, unless the owner wrote in between.
    fileprivate var leaves: Int64? { revision ?? found }

    /// The same step as when the records were merged first. There was room then.
    fileprivate func merge(_ guest: RecordContent, into content: RecordContent?) -> MergeDecision {
      // Who keeps the account's where it has none drops the guest's.
      if isDecided && policy == .keepTarget { return .keep }
      return policy.merge(guest, into: content, hasRoom: true)
    }
  }

  /// The record as it is.
  package struct Held: Sendable, Equatable {
    package let content: RecordContent
    package let revision: Int64
    /// The revision with which there was one of this name again.
    package let born: Int64

    package init(content: RecordContent, revision: Int64, born: Int64) {
      self.content = content
      self.revision = revision
      self.born = born
    }
  }

  package let held: Held?
  /// In the order of their positions.
  package let layers: [Layer]

  /// `held` is nil where the account has no such record.
  package init(held: Held?, layers: [Layer]) {
    self.held = held
    self.layers = layers.sorted { $0.position < $1.position }
  }

  /// What comes of taking one layer out.
  package struct Removal: Sendable, Equatable {
    /// What the account has then; nil for nothing.
    package fileprivate(set) var content: RecordContent?
    /// Whether that is other than it was.
    package fileprivate(set) var isChange: Bool
    /// Whether the record is not as it was before the layer came, because the owner has changed it since.
    package fileprivate(set) var isLeft: Bool
    /// Layers that do not fit any more, with why: their guests' records are to be set aside.
    package fileprivate(set) var unfit: [(layer: Layer, guest: RecordContent, reason: ConflictReason)] = []
    fileprivate var before: [Layer] = []
    fileprivate var remaining: [Layer] = []
    /// The layers from here on were merged anew.
    fileprivate var firstMerged = 0
    /// The revision that the lowest found.
    fileprivate var ground: Int64?

    package static func == (left: Removal, right: Removal) -> Bool {
      left.content == right.content && left.isChange == right.isChange && left.isLeft == right.isLeft
        && left.remaining == right.remaining && left.unfit.map(\.layer) == right.unfit.map(\.layer)
    }

    /// The layers about which something else is to be remembered, once the record has `revision`; 0 for no record.
    package func remembered(at revision: Int64) -> [Layer] {
      var layers = remaining
      let last = layers.lastIndex { $0.isWritten }
      // With no layer that wrote, all lie on the record itself.
      var beneath = last == nil ? revision : ground
      for index in layers.indices {
        layers[index].found = beneath
        if index == last {
          layers[index].revision = revision
        } else if layers[index].isWritten && index >= firstMerged {
          // Nobody has seen what it left: any revision that is nobody else's joins it to the next.
          layers[index].revision = layers[index].position
        }
        beneath = layers[index].leaves
      }
      return layers.filter { !before.contains($0) }
    }
  }

  /// The layers of whose guests' records `removing` may ask.
  package func needed(removing source: RecordName, of migration: MigrationID) -> [Layer] {
    guard let index = layers.firstIndex(where: { $0.migration == migration && $0.source == source }),
      layers[index].isWritten
    else { return [] }
    let first = firstJoined
    if index >= first { return Array(layers[(index + 1)...]) }
    return layers[index].isAdded ? [layers[index]] + layers[first...] : []
  }

  /// Takes out what the migration made of its guest's record `source`. `guest` gives what a layer's guest had; nil when
  /// that is no longer known, and then everything stays. Nil: there is nothing to take out.
  package func removing<Failure: Error>(
    _ source: RecordName,
    of migration: MigrationID,
    guest: (Layer) throws(Failure) -> RecordContent?
  ) throws(Failure) -> Removal? {
    guard let index = layers.firstIndex(where: { $0.migration == migration && $0.source == source }),
      layers[index].isWritten
    else { return nil }
    let (layer, first) = (layers[index], firstJoined)
    let untouched = Removal(content: held?.content, isChange: false, isLeft: held?.content != layer.old)
    if index >= first {
      var removal = try merging(
        layers[(index + 1)...], over: layer.old, beneath: Array(layers[first..<index]), guest: guest)
      removal?.ground = layers[first].found
      return removal ?? untouched
    }
    // The owner has written since. What was added to a line is taken off it, as long as it is the same line.
    guard layer.isAdded, let held, held.born <= layer.position,
      let added = try guest(layer)?.number,
      let ground = (layers[first...].first { $0.isWritten }.map(\.old) ?? held.content)?.taking(off: added),
      var removal = try merging(layers[first...], over: ground, beneath: [], guest: guest)
    else { return untouched }
    removal.isLeft = removal.content != layer.old
    removal.ground = layers[first...].first?.found
    return removal
  }

  /// The first of the layers that lie on each other up to the record as it is.
  private var firstJoined: Int {
    var first = layers.endIndex
    var revision = held?.revision ?? 0
    while first > 0, layers[first - 1].leaves == revision {
      first -= 1
      guard let found = layers[first].found else { break }
      revision = found
    }
    return first
  }

  /// Nil: a guest's record is no longer known.
  private func merging<Failure: Error>(
    _ above: ArraySlice<Layer>,
    over ground: RecordContent?,
    beneath: [Layer],
    guest: (Layer) throws(Failure) -> RecordContent?
  ) throws(Failure) -> Removal? {
    var removal = Removal(content: ground, isChange: false, isLeft: false)
    (removal.before, removal.remaining, removal.firstMerged) = (beneath + above, beneath, beneath.count)
    for var layer in above {
      guard let content = try guest(layer) else { return nil }
      let decision = layer.merge(content, into: removal.content)
      if let reason = decision.conflict {
        removal.unfit.append((layer, content, reason))
        continue
      }
      layer.outcome = decision.outcome
      layer.old = decision.content == nil ? nil : removal.content
      // The revision is set when that of the record is known.
      layer.revision = decision.content == nil ? nil : layer.position
      if let merged = decision.content { removal.content = merged }
      removal.remaining.append(layer)
    }
    removal.isChange = removal.content != held?.content
    return removal
  }
}

extension RecordContent {
  /// The same with less of it. Nil where there would be less than nothing of what there was some of: that was not part
  /// of it any more.
  fileprivate func taking(off number: Int64) -> RecordContent? {
    let (left, overflows) = self.number.subtractingReportingOverflow(number)
    guard !overflows, left == 0 || left.signum() == self.number.signum() else { return nil }
    var content = self
    content.number = left
    return content
  }
}
