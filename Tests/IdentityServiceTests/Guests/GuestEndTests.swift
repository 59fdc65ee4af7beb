import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Testing

@testable import IdentityService

@Suite("Guests that are exported, deleted and forgotten")
struct GuestEndTests {
  private func export(
    _ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?
  ) async throws -> [IdentityV1.ExportGuestResponse.Part] {
    try await harness.guests.exportGuest(
      IdentityV1.ExportGuestRequest(), options: .bearer(tokens)
    ) { responses throws(RPCError) in
      var parts: [IdentityV1.ExportGuestResponse.Part] = []
      for try await response in responses {
        if let part = response.part { parts.append(part) }
      }
      return parts
    }
  }

  private static let records = (0..<5).map {
    MigrationV1.Record(collection: "cart", key: "k\($0)", value: [UInt8($0)], number: Int64($0), revision: 1)
  }

  @Test("D1: an export holds all that is known of a guest: itself, its device, session, guides and every record")
  func exports() async throws {
    let migrator = ScriptedMigrator()
    migrator.state.withLock { $0.records = Self.records }
    let harness = try await IdentityHarness(migrator: migrator)
    let guest = try await harness.issueGuest(try TestDevice())
    let parts = try await export(harness, guest.tokens)
    var records: [MigrationV1.Record] = []
    var (devices, sessions, subjects) = (0, 0, 0)
    for part in parts {
      switch part {
      case .subject(let subject):
        subjects += 1
        #expect(subject.sub == guest.subject?.sub && subject.isGuest && subject.createdAt != nil)
      case .device(let device):
        devices += 1
        #expect(device.label == "Ada's phone" && device.platform == "iOS")
      case .session(let session):
        sessions += 1
        #expect(session.sid == guest.tokens?.sid && session.current)
      case .records(let page): records += page.records
      case .identity, .guide, .complete: break
      }
    }
    #expect(subjects == 1 && devices == 1 && sessions == 1)
    #expect(records == Self.records)
    #expect(parts.last == .complete(IdentityV1.ExportSummary(records: 5, recordsVersion: 7)))
    // The service credential is not what records are asked for with: the guest's own token is.
    #expect(migrator.state.withLock { $0.credentials }.contains { $0.hasPrefix("Bearer ey") })
  }

  @Test("D1: an export that the record store cannot answer fails, and is not taken for one")
  func exportFails() async throws {
    let migrator = ScriptedMigrator()
    let harness = try await IdentityHarness(migrator: migrator)
    let guest = try await harness.issueGuest(try TestDevice())
    migrator.state.withLock { $0.isUp = false }
    await expectRefusal(.unavailable) { try await export(harness, guest.tokens) }
    let id = try SubjectID(guest.subject.orThrow().sub).orThrow()
    let standing = try await harness.core.look(FindStanding(of: id))
    #expect(standing?.exportedAt == nil)
  }

  @Test("R10: a deleted guest is nobody ever again: its tokens end, its records go, its key gets a new guest")
  func deletes() async throws {
    let migrator = ScriptedMigrator()
    let harness = try await IdentityHarness(migrator: migrator)
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    let sub = try guest.subject.orThrow().sub
    await expectRefusal(.invalidArgument, field: "sub") {
      try await harness.guests.deleteGuest(
        IdentityV1.DeleteGuestRequest(sub: SubjectID(from: harness.core.random).description),
        options: .bearer(guest.tokens))
    }
    let answer = try await harness.guests.deleteGuest(
      IdentityV1.DeleteGuestRequest(sub: sub), options: .bearer(guest.tokens))
    #expect(answer.recordsDeleted && migrator.state.withLock { $0.purged } == [sub])
    #expect(try await !harness.isActive(guest.tokens.orThrow().accessToken))
    await expectRefusal(.unauthenticated) { try await harness.refresh(guest.tokens) }
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") {
      try await harness.register("ada@example.com", guest: guest.tokens)
    }
    let again = try await harness.issueGuest(device)
    #expect(again.created && again.subject?.sub != sub)
    #expect(again.storageNamespace != guest.storageNamespace)
    #expect(try await harness.core.look(FindStanding(of: try SubjectID(sub).orThrow()))?.subject.kind == .deleted)
    let events = try await harness.audit.listAuditEvents(
      IdentityV1.ListAuditEventsRequest(sub: sub), options: .service
    ).events.map(\.kind)
    #expect(events.contains("guest_deleted"))
  }

  @Test(
    "R10: while the record store is away the deletion holds, and the records go when it is back, also after a restart")
  func purgesLater() async throws {
    let migrator = ScriptedMigrator()
    migrator.state.withLock { $0.isUp = false }
    let first = try await IdentityHarness(migrator: migrator)
    let guest = try await first.issueGuest(try TestDevice())
    let answer = try await first.guests.deleteGuest(IdentityV1.DeleteGuestRequest(), options: .bearer(guest.tokens))
    #expect(!answer.recordsDeleted)
    let harness = try await first.restarted(migrator: migrator)
    migrator.state.withLock { $0.isUp = true }
    #expect(await harness.core.purger?.purgeDue() == 0)
    harness.clock.advance(by: .seconds(3))
    #expect(await harness.core.purger?.purgeDue() == 1)
    #expect(migrator.state.withLock { $0.purged } == [guest.subject?.sub])
    harness.clock.advance(by: .seconds(3600))
    #expect(await harness.core.purger?.purgeDue() == 0)
  }

  @Test("C14: purges are taken one by one, and one that the end of an instance broke off is due at once")
  func purgeBrokenOff() async throws {
    let migrator = ScriptedMigrator()
    migrator.state.withLock { $0.isUp = false }
    let harness = try await IdentityHarness(migrator: migrator)
    for _ in 0..<2 {
      let guest = try await harness.issueGuest(try TestDevice())
      _ = try await harness.guests.deleteGuest(IdentityV1.DeleteGuestRequest(), options: .bearer(guest.tokens))
    }
    harness.clock.advance(by: Limits.purgeHandover)
    migrator.state.withLock { ($0.isUp, $0.isSilent) = (true, true) }
    func due() async throws -> Int { try await harness.core.look(DuePurges(at: harness.clock.now(), limit: 9)).count }
    let purging = Task { await harness.core.purger?.purgeDue() }
    try await eventually { migrator.state.withLock { $0.unanswered } == 1 }
    #expect(try await due() == 1)
    purging.cancel()
    _ = await purging.value
    #expect(try await due() == 2)
    migrator.state.withLock { $0.isSilent = false }
    #expect(await harness.core.purger?.purgeDue() == 2)
    #expect(migrator.state.withLock { Set($0.purged).count } == 2)
  }

  @Test("R10: an account is not deleted as a guest, and neither is a guest whose data is on its way")
  func refusals() async throws {
    let harness = try await IdentityHarness(migrator: ScriptedMigrator())
    let account = try await harness.register("ada@example.com")
    await expectRefusal(.permissionDenied, "GUEST_ONLY") {
      try await harness.guests.deleteGuest(IdentityV1.DeleteGuestRequest(), options: .bearer(account.tokens))
    }
    let guest = try await harness.issueGuest(try TestDevice())
    _ = try await harness.signIn("ada@example.com", guest: guest.tokens, onConflict: .merge)
    await expectRefusal(.failedPrecondition, "MIGRATION_RUNNING") {
      try await harness.guests.deleteGuest(IdentityV1.DeleteGuestRequest(), options: .bearer(guest.tokens))
    }
  }

  @Test("D7: a guest that owns nothing is forgotten 180 days after its last use, not after its first")
  func retention() async throws {
    let harness = try await IdentityHarness(migrator: ScriptedMigrator())
    let (old, used) = (try TestDevice(), try TestDevice())
    let forgotten = try await harness.issueGuest(old)
    let kept = try await harness.issueGuest(used)
    harness.clock.advance(by: .seconds(100 * 86_400))
    _ = try await harness.issueGuest(used)
    harness.clock.advance(by: .seconds(80 * 86_400))
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep())
    harness.clock.advance(by: .seconds(1))
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(deleted: 1))
    #expect(try await harness.issueGuest(used).subject == kept.subject)
    let fresh = try await harness.issueGuest(old)
    #expect(fresh.created && fresh.subject != forgotten.subject)
  }

  @Test("C14: one instance at a time forgets guests, and another goes on for one that is gone")
  func oneAtATime() async throws {
    let harness = try await IdentityHarness(migrator: ScriptedMigrator())
    _ = try await harness.issueGuest(try TestDevice())
    harness.clock.advance(by: .seconds(181 * 86_400))
    let other = UpkeepLease(
      "guest retention", holder: OpaqueIDValue(from: harness.core.random), duration: Limits.retentionLease)
    #expect(try await harness.core.perform(TakeUpkeep(other, at: harness.clock.now())))
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(isBrokenOff: true))
    harness.clock.advance(by: Limits.retentionLease)
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(deleted: 1))
    // It left no lease behind.
    #expect(try await harness.core.perform(TakeUpkeep(other, at: harness.clock.now())))
  }

  @Test("C14: however long it takes to ask who owns what, those are forgotten whose turn comes after it")
  func slowDescriptions() async throws {
    let migrator = ScriptedMigrator()
    migrator.state.withLock { $0.records = Self.records }
    let harness = try await IdentityHarness(migrator: migrator)
    _ = try await harness.issueGuest(try TestDevice())
    harness.clock.advance(by: .seconds(60))
    let exported = try await harness.issueGuest(try TestDevice())
    _ = try await export(harness, exported.tokens)
    harness.clock.advance(by: .seconds(181 * 86_400))
    migrator.state.withLock {
      $0.onDescription = { [clock = harness.clock] in clock.advance(by: Limits.retentionLease + .seconds(1)) }
    }
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(deleted: 1, kept: 1))
  }

  @Test("D7: a guest with data is kept, however old, until the data was exported as it is")
  func keepsData() async throws {
    let migrator = ScriptedMigrator()
    migrator.state.withLock { $0.records = Self.records }
    let harness = try await IdentityHarness(migrator: migrator)
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    let year: Duration = .seconds(366 * 86_400)
    harness.clock.advance(by: year)
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(kept: 1))
    // The record store does not say: nobody is deleted.
    migrator.state.withLock { ($0.isUp, $0.records) = (false, []) }
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(isBrokenOff: true))
    migrator.state.withLock { ($0.isUp, $0.records) = (true, Self.records) }
    let again = try await harness.issueGuest(device)
    #expect(again.subject == guest.subject)
    _ = try await export(harness, again.tokens)
    migrator.state.withLock { $0.recordsVersion = 8 }
    harness.clock.advance(by: year)
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(kept: 1))
    migrator.state.withLock { $0.recordsVersion = 7 }
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(deleted: 1))
    await harness.core.purger?.purgeDue()
    #expect(migrator.state.withLock { $0.purged } == [guest.subject?.sub])
  }

  @Test("R54: once guests' records leave no room, those of a guest whom nobody used for long go, and no others")
  func givesUpData() async throws {
    let migrator = ScriptedMigrator()
    migrator.state.withLock { $0.records = Self.records }
    let harness = try await IdentityHarness(migrator: migrator)
    let (old, used) = (try TestDevice(), try TestDevice())
    _ = try await harness.issueGuest(old)
    harness.clock.advance(by: .seconds(180 * 86_400))
    let kept = try await harness.issueGuest(used)
    harness.clock.advance(by: .seconds(1))
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(kept: 1))
    migrator.state.withLock { $0.guestsFullUntilPurged = 1 }
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(deleted: 1))
    #expect(try await harness.issueGuest(used).subject == kept.subject)
  }

  @Test("R54: when there is no room for guests, as many of the unused go as it takes, the last one used last")
  func makesRoom() async throws {
    let migrator = ScriptedMigrator()
    migrator.state.withLock { $0.records = Self.records }
    let harness = try await IdentityHarness(migrator: migrator, guestLimit: 40)
    let devices = try (0..<40).map { _ in try TestDevice() }
    for device in devices {
      _ = try await harness.issueGuest(device)
      harness.clock.advance(by: .seconds(1))
    }
    harness.clock.advance(by: Limits.guestRetention)
    // Nobody's data is given up while it is unknown whether somebody's has to be.
    migrator.state.withLock { $0.isUp = false }
    await harness.rooms.upkeep.guests.keepOnce()
    await expectRefusal(.resourceExhausted, "GUESTS_FULL") { try await harness.issueGuest(try TestDevice()) }
    migrator.state.withLock { $0.isUp = true }
    // Counted by another instance at the same time as by this one.
    let elsewhere = GuestRoom(limit: 40, domain: harness.rooms.auth.domain)
    await elsewhere.count()
    await harness.rooms.upkeep.guests.keepOnce()
    #expect(elsewhere.isFull)
    #expect(await harness.core.retention.sweep(givingUpDataFor: elsewhere) == GuestRetention.Sweep())
    for device in devices[2...] { #expect(try await !harness.issueGuest(device).created) }
    for device in devices[..<2] { #expect(try await harness.issueGuest(device).created) }
  }

  @Test("R54: what other instances made is reckoned with, and counted before anybody is refused")
  func roomAmongInstances() async throws {
    let harness = try await IdentityHarness(guestLimit: 40)
    let room = GuestRoom(limit: 8, domain: harness.rooms.auth.domain, among: InstanceCount { 3 })
    await room.count()
    for _ in 0..<2 { room.added() }
    let hasRoomOfSix = await room.hasRoom()
    #expect(hasRoomOfSix)
    room.added()
    // Just counted: it is not done again for each who asks.
    let hasRoomOfNine = await room.hasRoom()
    #expect(room.isFull && !hasRoomOfNine)
    // One that has not counted for long looks first.
    let other = GuestRoom(limit: 1, domain: harness.rooms.auth.domain)
    other.added()
    let hasRoomOfNone = await other.hasRoom()
    #expect(hasRoomOfNone)
    _ = try await harness.issueGuest(try TestDevice())
    let again = GuestRoom(limit: 1, domain: harness.rooms.auth.domain)
    again.added()
    let isTaken = await again.hasRoom()
    #expect(!isTaken)
  }

  @Test("R54: no more guests lose their data than it takes until there is room again, and none while that is unknown")
  func givesUpNoMoreThanNeeded() async throws {
    let migrator = ScriptedMigrator()
    migrator.state.withLock { $0.records = Self.records }
    let harness = try await IdentityHarness(migrator: migrator)
    for _ in 0..<5 {
      _ = try await harness.issueGuest(try TestDevice())
      harness.clock.advance(by: .seconds(1))
    }
    harness.clock.advance(by: .seconds(181 * 86_400))
    migrator.state.withLock {
      $0.guestsFullUntilPurged = 2
      $0.failPurges = [RPCError(.unavailable, "the migrator is busy")]
    }
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(deleted: 1, isBrokenOff: true))
    #expect(await harness.core.retention.sweep() == GuestRetention.Sweep(deleted: 2, kept: 2))
    #expect(migrator.state.withLock { $0.purged.count } == 2)
    // The one whose records could not be purged is purged later.
    harness.clock.advance(by: Limits.purgeRetryFirst)
    await harness.core.purger?.purgeDue()
    #expect(migrator.state.withLock { Set($0.purged).count } == 3)
  }
}
