/// A guest's records on their way into an account.
///
/// ```
/// FREEZE ──▶ SNAPSHOT ──▶ APPLY ──▶ VERIFY ──▶ SWITCH ──▶ PURGE ──▶ done ──▶ recalling ──▶ restoring
///               ▲        └──┘↺        │          │        └──┘↺      ▲ on request │        └──┘↺ │
///               │                     ▼          ▼                   └── refused ─┘              ▼
///               └──── failed ◀── telling ◀── undoing                            undone ◀── returning
///             on request                     └──┘↺                                         └──┘↺
/// ```
/// What cannot go on is undone: the account's records are as they were, and the guest may write again. Identity is told
/// before the migration counts as failed, so that nobody stays frozen there.
///
/// What is done may be taken back for a while. Identity makes the guest one again first, as only it can refuse; then the
/// guest has its records again, and the account what it had.
///
/// Each event says that a step's effects are stored and answers what to do next. The effects and the new state are
/// stored in one transaction, so a step is done or it is not. An event that does not fit the state changes nothing and
/// answers nil: someone else did the step.
package struct Migration: Sendable, Equatable {
  /// What the one who drives the migration has to do now.
  package enum Action: Sendable, Equatable {
    case freezeGuest
    case countRecords
    /// Merge the guest's next records beyond `after`, in the order of collections.
    case applyRecords(after: Cursor?)
    case verify
    case switchSubject
    case purgeRecords
    /// Take back what was merged, and let the guest go.
    case undoRecords
    case tellFailure(reason: String)
    /// The guest's subject is to be a guest again.
    case recallSubject
    /// Give the guest its records again.
    case restoreRecords
  }

  /// The last record that was merged.
  package struct Cursor: Sendable, Hashable {
    package let collection: CollectionName
    package let key: RecordKey
    /// Its time, where the collection is merged newest first; nil where it is merged in the order of keys.
    package let updatedAt: Timestamp?

    /// Newest first: for a collection of which the account takes so many and no more.
    package init(collection: CollectionName, position: RecordPosition) {
      self.collection = collection
      (key, updatedAt) = (position.key, position.updatedAt)
    }

    /// In the order of keys, which is the order of storage.
    package init(after name: RecordName) {
      (collection, key, updatedAt) = (name.collection, name.key, nil)
    }

    package var position: RecordPosition? { updatedAt.map { RecordPosition(updatedAt: $0, key: key) } }
  }

  package enum State: Sendable, Equatable {
    case freezing
    case counting
    case applying(after: Cursor?)
    case verifying
    case switching
    case purging
    case done(at: Timestamp)
    case undoing(MigrationStep, reason: String)
    case telling(MigrationStep, reason: String)
    case failed(MigrationStep, reason: String, at: Timestamp)
    case recalling
    case restoring
    case returning
    case undone(at: Timestamp)
  }

  package let id: MigrationID
  package let guest: SubjectID
  package let target: SubjectID
  package let createdAt: Timestamp
  package private(set) var state: State
  /// Records merged so far, and to merge.
  package private(set) var done: Int
  package private(set) var total: Int
  /// Until when a migration that is done may be taken back; nil when it may not.
  package private(set) var undoUntil: Timestamp?
  /// Why identity did not let it be taken back, when it was asked last.
  package private(set) var undoRefusal: String?

  /// A migration that has just been asked for.
  package init(id: MigrationID, guest: SubjectID, target: SubjectID, createdAt: Timestamp) {
    self.init(id: id, guest: guest, target: target, createdAt: createdAt, state: .freezing, done: 0, total: 0)
  }

  /// A migration as it was stored.
  package init(
    id: MigrationID,
    guest: SubjectID,
    target: SubjectID,
    createdAt: Timestamp,
    state: State,
    done: Int,
    total: Int,
    undoUntil: Timestamp? = nil,
    undoRefusal: String? = nil
  ) {
    self.id = id
    self.guest = guest
    self.target = target
    self.createdAt = createdAt
    self.state = state
    self.done = done
    self.total = total
    self.undoUntil = undoUntil
    self.undoRefusal = undoRefusal
  }

  /// Nil when there is nothing left to do.
  package var action: Action? {
    switch state {
    case .freezing: .freezeGuest
    case .counting: .countRecords
    case .applying(let cursor): .applyRecords(after: cursor)
    case .verifying: .verify
    case .switching: .switchSubject
    case .purging: .purgeRecords
    case .undoing, .returning: .undoRecords
    case .telling(_, let reason): .tellFailure(reason: reason)
    case .recalling: .recallSubject
    case .restoring: .restoreRecords
    case .done, .failed, .undone: nil
    }
  }

  package var isFinished: Bool { action == nil }

  /// Whether it still brings the guest's records to the account, so that they have to be accounted for.
  package var isMerging: Bool {
    switch state {
    case .freezing, .counting, .applying, .verifying, .switching, .purging: true
    case .done, .undoing, .telling, .failed, .recalling, .restoring, .returning, .undone: false
    }
  }

  /// The step that is under way, or that was the last.
  package var step: MigrationStep {
    switch state {
    case .freezing: .freeze
    case .counting: .snapshot
    // What is taken back is told as the step that it takes back.
    case .applying, .returning, .undone: .apply
    case .verifying: .verify
    case .switching, .recalling: .switch
    case .purging, .done, .restoring: .purge
    case .undoing(let step, _), .telling(let step, _), .failed(let step, _, _): step
    }
  }

  // MARK: Events

  package mutating func guestFrozen() -> Action? {
    guard case .freezing = state else { return nil }
    return enter(.counting)
  }

  package mutating func recordsCounted(_ total: Int) -> Action? {
    guard case .counting = state else { return nil }
    self.total = total
    return enter(total == 0 ? .verifying : .applying(after: nil))
  }

  /// `last` is the last record of the chunk; `isLast` says that the guest has no record beyond it.
  package mutating func recordsApplied(_ count: Int, through last: Cursor, isLast: Bool) -> Action? {
    guard case .applying = state else { return nil }
    done += count
    return enter(isLast ? .verifying : .applying(after: last))
  }

  /// `problem` says which records are not accounted for once; nil when all are.
  package mutating func verified(problem: String?) -> Action? {
    guard case .verifying = state else { return nil }
    guard let problem else { return enter(.switching) }
    return enter(.undoing(.verify, reason: problem))
  }

  /// Identity will never switch this guest to this account.
  package mutating func switchRefused(reason: String) -> Action? {
    guard case .switching = state else { return nil }
    return enter(.undoing(.switch, reason: reason))
  }

  /// `isLast` says that nothing is left to take back.
  package mutating func recordsUndone(isLast: Bool, at now: Timestamp) -> Bool {
    switch state {
    case .undoing(let step, let reason):
      state = isLast ? .telling(step, reason: reason) : .undoing(step, reason: reason)
    case .returning:
      if isLast {
        state = .undone(at: now)
        undoUntil = nil
      }
    default: return false
    }
    return true
  }

  package mutating func failureTold(at now: Timestamp) -> Action? {
    guard case .telling(let step, let reason) = state else { return nil }
    return enter(.failed(step, reason: reason, at: now))
  }

  /// Somebody asks for what failed once more, and the guest is frozen again.
  package mutating func retried() -> Action? {
    guard case .failed = state else { return nil }
    (done, total) = (0, 0)
    return enter(.counting)
  }

  package mutating func subjectSwitched() -> Action? {
    guard case .switching = state else { return nil }
    return enter(.purging)
  }

  /// `isLast` says that the guest has none left. From then on the migration may be taken back until `undoUntil`.
  package mutating func recordsPurged(isLast: Bool, at now: Timestamp, undoUntil: Timestamp?) -> Action? {
    guard case .purging = state else { return nil }
    if isLast { self.undoUntil = undoUntil }
    return enter(isLast ? .done(at: now) : .purging)
  }

  // MARK: Taking back

  /// Somebody asks for it.
  package mutating func undoAsked(at now: Timestamp) -> Action? {
    guard case .done = state, let undoUntil, now < undoUntil else { return nil }
    undoRefusal = nil
    return enter(.recalling)
  }

  package mutating func subjectRecalled() -> Action? {
    guard case .recalling = state else { return nil }
    return enter(.restoring)
  }

  /// Identity will not make the guest one again. True when the migration stood there: it is done, as before.
  package mutating func recallRefused(reason: String, at now: Timestamp) -> Bool {
    guard case .recalling = state else { return false }
    undoRefusal = reason
    state = .done(at: now)
    return true
  }

  package mutating func recordsRestored(isLast: Bool) -> Action? {
    guard case .restoring = state else { return nil }
    return enter(isLast ? .returning : .restoring)
  }

  /// What taking back needs is kept no longer: it cannot be taken back any more, whatever the clock says later.
  package mutating func undoForgotten() { undoUntil = nil }

  private mutating func enter(_ state: State) -> Action? {
    self.state = state
    return action
  }
}
