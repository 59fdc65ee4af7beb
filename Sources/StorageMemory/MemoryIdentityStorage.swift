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
  }

  struct DeviceRow: Sendable {
    var registration: DeviceRegistration
    var stored = StoredDevice()
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
  var unlocks = MemoryTable<UnlockKey, Unlock>()
  var tickets = MemoryTable<[UInt8], LinkTicket>()
  var lineage = MemoryTable<Descent, Bool>()
  var merges = MemoryTable<MergeID, PendingMerge>()
  var sources = MemoryTable<SourceKey, Timestamp>()
  var replays = MemoryTable<[UInt8], SignInReplay>()
  var transfers = MemoryTable<TransferID, TransferRecord>()
  var grants = MemoryTable<String, QRGrantRecord>()
  var events = MemoryTable<Int64, AuditEvent>()

  func commit() {
    subjects.commit()
    devices.commit()
    sessions.commit()
    identities.commit()
    passwords.commit()
    challenges.commit()
    codes.commit()
    unlocks.commit()
    tickets.commit()
    lineage.commit()
    merges.commit()
    sources.commit()
    replays.commit()
    transfers.commit()
    grants.commit()
    events.commit()
  }

  func rollBack() {
    subjects.rollBack()
    devices.rollBack()
    sessions.rollBack()
    identities.rollBack()
    passwords.rollBack()
    challenges.rollBack()
    codes.rollBack()
    unlocks.rollBack()
    tickets.rollBack()
    lineage.rollBack()
    merges.rollBack()
    sources.rollBack()
    replays.rollBack()
    transfers.rollBack()
    grants.rollBack()
    events.rollBack()
  }
}
