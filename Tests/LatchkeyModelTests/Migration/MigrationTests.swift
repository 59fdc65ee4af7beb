import Testing

@testable import LatchkeyModel

@Suite struct MigrationTests {
  private static let start = Timestamp(millisecondsSinceEpoch: 1000)
  private static let later = Timestamp(millisecondsSinceEpoch: 2000)

  private static let cursor: Migration.Cursor = {
    guard let collection = CollectionName("history"), let key = RecordKey("k") else { preconditionFailure("both fit") }
    return Migration.Cursor(collection: collection, position: RecordPosition(updatedAt: start, key: key))
  }()

  private static func id<ID: OpaqueID>(_ byte: UInt8) -> ID {
    ID(from: RandomSource { [UInt8](repeating: byte, count: $0) })
  }

  private static func migration(_ state: Migration.State = .freezing) -> Migration {
    var undoUntil: Timestamp?
    if case .done = state { undoUntil = later }
    return Migration(
      id: id(1), guest: id(2), target: id(3), createdAt: start, state: state, done: 0, total: 0, undoUntil: undoUntil)
  }

  private static let states: [Migration.State] = [
    .freezing, .counting, .applying(after: nil), .applying(after: cursor), .verifying, .switching, .purging,
    .done(at: later), .failed(.verify, reason: "lost", at: later),
    .undoing(.switch, reason: "gone"), .telling(.verify, reason: "lost"),
    .recalling, .restoring, .returning, .undone(at: later),
  ]

  @Test(
    "G16: the guest's records are deleted only after the account has them, they are verified and the guest switched")
  func order() {
    var migration = Self.migration()
    var actions = [migration.action]
    actions.append(migration.guestFrozen())
    actions.append(migration.recordsCounted(3))
    actions.append(migration.recordsApplied(2, through: Self.cursor, isLast: false))
    actions.append(migration.recordsApplied(1, through: Self.cursor, isLast: true))
    actions.append(migration.verified(problem: nil))
    actions.append(migration.subjectSwitched())
    actions.append(migration.recordsPurged(isLast: false, at: Self.later, undoUntil: nil))
    actions.append(migration.recordsPurged(isLast: true, at: Self.later, undoUntil: nil))
    #expect(
      actions == [
        .freezeGuest, .countRecords, .applyRecords(after: nil), .applyRecords(after: Self.cursor), .verify,
        .switchSubject, .purgeRecords, .purgeRecords, nil,
      ])
    #expect(migration.state == .done(at: Self.later))
    #expect(migration.done == 3 && migration.total == 3)
  }

  @Test("a guest without records is verified and switched at once")
  func empty() {
    var migration = Self.migration(.counting)
    #expect(migration.recordsCounted(0) == .verify)
  }

  @Test("R39: what cannot go on is undone and told before it has failed, without switch and without purge")
  func failure() {
    var unverified = Self.migration(.verifying)
    #expect(unverified.verified(problem: "1 record was not merged") == .undoRecords)
    var refused = Self.migration(.switching)
    #expect(refused.switchRefused(reason: "no such account") == .undoRecords)
    for (var migration, step, reason) in [
      (unverified, MigrationStep.verify, "1 record was not merged"), (refused, .switch, "no such account"),
    ] {
      var isUndone = migration.recordsUndone(isLast: false, at: Self.later)
      #expect(isUndone && migration.action == .undoRecords)
      isUndone = migration.recordsUndone(isLast: true, at: Self.later)
      #expect(isUndone && migration.action == .tellFailure(reason: reason))
      #expect(!migration.isFinished && migration.step == step)
      #expect(migration.failureTold(at: Self.later) == nil)
      #expect(migration.state == .failed(step, reason: reason, at: Self.later) && migration.isFinished)
      #expect(migration.retried() == .countRecords)
      #expect(migration.done == 0 && migration.total == 0)
    }
  }

  @Test(
    "R39: what is done is taken back while its time lasts: the guest first, as identity may refuse, then the records")
  func takenBack() {
    var migration = Self.migration(.purging)
    _ = migration.recordsPurged(isLast: true, at: Self.start, undoUntil: Self.later)
    var late = migration
    #expect(late.undoAsked(at: Self.later) == nil)
    #expect(late == migration)
    let isRefused = late.recallRefused(reason: "no", at: Self.later)
    #expect(!isRefused)
    #expect(migration.undoAsked(at: Self.start) == .recallSubject)
    var refused = migration
    let isDone = refused.recallRefused(reason: "replaced", at: Self.later)
    #expect(isDone && refused.state == .done(at: Self.later) && refused.undoRefusal == "replaced")
    #expect(refused.undoAsked(at: Self.start) == .recallSubject)
    #expect(refused.undoRefusal == nil)
    #expect(migration.subjectRecalled() == .restoreRecords)
    #expect(migration.recordsRestored(isLast: false) == .restoreRecords)
    #expect(migration.recordsRestored(isLast: true) == .undoRecords)
    let isReturned = migration.recordsUndone(isLast: true, at: Self.later)
    #expect(isReturned && migration.state == .undone(at: Self.later))
    #expect(migration.isFinished && migration.undoUntil == nil)
  }

  @Test("R38: an event that does not fit the state changes nothing: no step is skipped, reordered or done twice")
  func everyStateTimesEveryEvent() {
    let events: [(name: String, fits: (Migration.State) -> Bool, fire: (inout Migration) -> Migration.Action?)] = [
      ("guestFrozen", { $0 == .freezing }, { $0.guestFrozen() }),
      ("recordsCounted", { $0 == .counting }, { $0.recordsCounted(5) }),
      (
        "recordsApplied", { if case .applying = $0 { true } else { false } },
        { $0.recordsApplied(5, through: Self.cursor, isLast: true) }
      ),
      ("verified", { $0 == .verifying }, { $0.verified(problem: nil) }),
      ("subjectSwitched", { $0 == .switching }, { $0.subjectSwitched() }),
      ("recordsPurged", { $0 == .purging }, { $0.recordsPurged(isLast: false, at: Self.later, undoUntil: nil) }),
      ("switchRefused", { $0 == .switching }, { $0.switchRefused(reason: "gone") }),
      (
        "recordsUndone", { if case .undoing = $0 { true } else { $0 == .returning } },
        { $0.recordsUndone(isLast: false, at: Self.later) ? $0.action : nil }
      ),
      ("undoAsked", { if case .done = $0 { true } else { false } }, { $0.undoAsked(at: Self.start) }),
      ("subjectRecalled", { $0 == .recalling }, { $0.subjectRecalled() }),
      ("recordsRestored", { $0 == .restoring }, { $0.recordsRestored(isLast: true) }),
      ("retried", { if case .failed = $0 { true } else { false } }, { $0.retried() }),
    ]
    for state in Self.states {
      for event in events {
        var migration = Self.migration(state)
        let before = migration
        let action = event.fire(&migration)
        if event.fits(state) {
          #expect(action != nil && action == migration.action, "\(event.name) in \(state)")
        } else {
          #expect(action == nil && migration == before, "\(event.name) in \(state)")
        }
      }
    }
  }

  @Test("every state says what to do next, and which step it is")
  func actions() {
    #expect(
      Self.states.map { Self.migration($0).step } == [
        .freeze, .snapshot, .apply, .apply, .verify, .switch, .purge, .purge, .verify,
        .switch, .verify, .switch, .purge, .apply, .apply,
      ])
    #expect(
      Self.states.map { Self.migration($0).isFinished }
        == [Bool](repeating: false, count: 7) + [true, true, false, false, false, false, false, true])
  }
}
