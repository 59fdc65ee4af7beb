import LatchkeyModel
import Storage

/// Identity's rows in memory, gone when the process ends: for tests and simulation.
///
/// Operations run one after the other. None is suspended in its midst, because nothing here waits for anything, so the
/// actor takes the next one only when this one has ended.
package actor MemoryIdentityStorage: IdentityStorage {
  private let tables = MemoryIdentityTables()

  package init() {}

  package func write<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    do throws(StorageError) {
      let outcome = try await operation.run(in: MemoryIdentityTransaction(tables: tables))
      tables.commit()
      return outcome
    } catch {
      tables.rollBack()
      throw error
    }
  }

  package func read<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await operation.run(in: MemoryIdentityTransaction(tables: tables))
  }
}

/// All tables, of which the transaction that runs is the only user.
final class MemoryIdentityTables {
  struct SubjectRow: Sendable {
    var subject: Subject
    var usedAt: Timestamp
    var exportedAt: Timestamp?
    var exportedVersion: Int64?
  }

  struct PurgeRow: Sendable {
    var purge: PendingPurge
    var dueAt: Timestamp
  }

  struct NoticeRow: Sendable {
    var notice: OwnerNotice
    var dueAt: Timestamp
  }

  struct DeviceRow: Sendable {
    var registration: DeviceRegistration
    /// What its owner knows it by.
    var label: DisplayText?
    var stored = StoredDevice()
    var createdAt: Timestamp
    var lastSeenAt: Timestamp
  }

  struct IdentityKey: Hashable, Sendable {
    var kind: AccountIdentifier.Kind
    var value: String
  }

  struct IdentityRow: Sendable {
    var identity: Identity
    var owner: SubjectID
    var secretHash: String?
  }

  struct UnlockKey: Hashable, Sendable {
    var kind: Unlock.Kind
    var keyThumbprint: String
  }

  struct UnlockRow: Sendable {
    var unlock: Unlock
    var triesLeft: Int64
  }

  struct Descent: Hashable, Sendable {
    var ancestor: LineageMember
    var descendant: LineageMember
  }

  struct SourceKey: Hashable, Sendable {
    var account: SubjectID
    var source: String
  }

  struct ChallengeKey: Hashable, Sendable {
    var expiry: Timestamp
    var hash: [UInt8]
  }

  struct GuideKey: Hashable, Sendable {
    var subject: SubjectID
    var guide: GuideID
  }

  struct MergeRow: Sendable {
    var merge: PendingMerge
    var dueAt: Timestamp
    var changedAt: Timestamp
  }

  struct MergedGuestKey: Hashable, Sendable {
    var guest: SubjectID
    var device: String
  }

  struct RecalledMergeKey: Hashable, Sendable {
    var guest: SubjectID
    var migration: String
  }

  struct AttemptKey: Hashable, Sendable {
    var target: [UInt8]
    var share: String
  }

  struct CodeKey: Hashable, Sendable {
    var identifierHash: [UInt8]
    var share: String
  }

  var subjects = MemoryTable<SubjectID, SubjectRow>()
  var devices = MemoryTable<String, DeviceRow>()
  var sessions = MemoryTable<SessionID, Session>()
  var identities = MemoryTable<IdentityKey, IdentityRow>()
  var passwords = MemoryTable<SubjectID, String>()
  var challenges = MemoryTable<ChallengeKey, Bool>()
  var codes = MemoryTable<CodeKey, StoredCode>()
  var attempts = MemoryTable<AttemptKey, CountedTries>()
  var unlocks = MemoryTable<UnlockKey, UnlockRow>()
  var tickets = MemoryTable<[UInt8], LinkTicket>()
  var lineage = MemoryTable<Descent, Bool>()
  var merges = MemoryTable<MergeID, MergeRow>()
  var mergedGuests = MemoryTable<MergedGuestKey, Timestamp>()
  var recalledMerges = MemoryTable<RecalledMergeKey, Timestamp>()
  var sources = MemoryTable<SourceKey, Timestamp>()
  var replays = MemoryTable<[UInt8], SignInReplay>()
  var transfers = MemoryTable<TransferID, TransferRecord>()
  var grants = MemoryTable<String, QRGrantRecord>()
  var guides = MemoryTable<GuideKey, StoredGuideProgress>()
  var purges = MemoryTable<SubjectID, PurgeRow>()
  var notices = MemoryTable<String, NoticeRow>()
  var upkeep = MemoryTable<String, UpkeepClaim>()
  var events = MemoryTable<Int64, AuditEvent>()
  /// One at most.
  var checkpoints = MemoryTable<Int, AuditCheckpoint>()

  func commit() {
    subjects.commit()
    devices.commit()
    sessions.commit()
    identities.commit()
    passwords.commit()
    challenges.commit()
    codes.commit()
    attempts.commit()
    unlocks.commit()
    tickets.commit()
    lineage.commit()
    merges.commit()
    mergedGuests.commit()
    recalledMerges.commit()
    sources.commit()
    replays.commit()
    transfers.commit()
    grants.commit()
    guides.commit()
    purges.commit()
    notices.commit()
    upkeep.commit()
    events.commit()
    checkpoints.commit()
  }

  func rollBack() {
    subjects.rollBack()
    devices.rollBack()
    sessions.rollBack()
    identities.rollBack()
    passwords.rollBack()
    challenges.rollBack()
    codes.rollBack()
    attempts.rollBack()
    unlocks.rollBack()
    tickets.rollBack()
    lineage.rollBack()
    merges.rollBack()
    mergedGuests.rollBack()
    recalledMerges.rollBack()
    sources.rollBack()
    replays.rollBack()
    transfers.rollBack()
    grants.rollBack()
    guides.rollBack()
    purges.rollBack()
    notices.rollBack()
    upkeep.rollBack()
    events.rollBack()
    checkpoints.rollBack()
  }
}
