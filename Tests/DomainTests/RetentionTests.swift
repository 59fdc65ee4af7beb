import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("Who is kept out, deleted and forgotten, by the rules")
struct RetentionTests {
  private let world = World()

  private func delete(
    _ subject: SubjectID, _ authority: DeleteSubject.Authority = .administrator(detail: "asked for")
  ) async throws -> DeleteSubject.Outcome {
    try await world.domain.perform(
      DeleteSubject(
        subject: subject, authority: authority, address: "192.0.2.1", now: world.now,
        purgeDueAt: world.now + .seconds(60)))
  }

  @Test("R10: of forty deletions at once one counts; a deleted guest is nobody ever again, and its key gets another")
  func deleteGuest() async throws {
    let guest = try await world.guest("key")
    let outcomes = try await withThrowingTaskGroup(of: DeleteSubject.Outcome.self) { group in
      for _ in 0..<40 { group.addTask { try await delete(guest.subject) } }
      return try await group.reduce(into: [DeleteSubject.Outcome]()) { $0.append($1) }
    }
    #expect(outcomes.filter { $0 == .notFound }.count == 39 && outcomes.contains(.deleted(sessionsEnded: 1)))
    #expect(try await world.domain.look(FindStanding(of: guest.subject))?.subject.kind == .deleted)
    #expect(try await world.guest("key").subject != guest.subject)
    #expect(world.heard.ended.map(\.why) == [.subjectDeleted])
    #expect(try await world.notes(.guestDeleted).map(\.detail) == ["asked for"])
  }

  @Test("R10: of a deleted account nothing is left that tells who it was; its name is free")
  func deleteAccount() async throws {
    let ada = try await world.account("ada", on: "phone")
    let guide = StoredGuideProgress(
      guide: try GuideID("welcome").orThrow(), progress: GuideProgress(), updatedAt: world.now)
    let unlock = Unlock(
      kind: .key, keyThumbprint: "finger", account: ada.subject, deviceKey: "phone", secretHash: nil,
      enrolledAt: world.now)
    _ = try await world.domain.perform(UpdateProfile(by: ada.id, at: world.now) { $0.nickname = Nickname("Ada") })
    try await world.write { rows throws(StorageError) in
      try await rows.guides.put(guide, of: ada.subject)
      try await rows.unlocks.put(unlock, triesLeft: 10)
    }
    #expect(try await delete(ada.subject, .account(ada.id, world.id())) == .deleted(sessionsEnded: 1))
    let found = try await world.domain.look(FindSubject(ada.subject)).orThrow()
    #expect(found.kind == .deleted && found.profile == Profile())
    #expect(try await world.domain.look(ListIdentities(of: ada.subject)).isEmpty)
    #expect(try await world.domain.look(FindPassword(of: ada.subject)) == nil)
    #expect(try await world.domain.look(FindGuideProgress(of: ada.subject)).isEmpty)
    #expect(try await world.domain.look(ListUnlocks(of: ada.subject)).isEmpty)
    let left = try await world.read { rows throws(StorageError) in
      (try await rows.devices.find("phone")?.lastAccount, try await rows.sources.find("192.0.2.1", of: ada.subject))
    }
    #expect(left.0 == nil && left.1 == nil)
    #expect(try await world.account("ada").session.subject != ada.subject)
    #expect(try await world.notes(.accountDeleted).map(\.address) == ["192.0.2.1"])
  }

  @Test("Only the subject itself, or who runs the service, deletes; a guest on its way into an account stays")
  func authority() async throws {
    let (guest, ada) = (try await world.guest("key"), try await world.account("ada").session)
    #expect(try await delete(ada.subject, .guest(ada.id)) == .notGuest)
    #expect(try await delete(guest.subject, .account(guest.id, world.id())) == .notAccount)
    #expect(try await delete(ada.subject, .account(guest.id, world.id())) == .callerEnded)
    #expect(try await delete(guest.subject, .guest(ada.id)) == .callerEnded)
    #expect(try await delete(world.id()) == .notFound)
    let merge = SignIn.GuestChoice.merge(world.id(), dueAt: world.now)
    _ = try await world.signIn("ada", as: ada.subject, guest: SignIn.Guest(session: guest.id, choice: merge))
    #expect(try await delete(guest.subject, .guest(guest.id)) == .merging)
    #expect(try await delete(ada.subject) == .deleted(sessionsEnded: 2))
  }

  @Test("The retention takes guests that nobody used, in their order; a refresh is a use, and an export is noted")
  func unused() async throws {
    let (first, second) = (try await world.guest("one"), try await world.guest("two"))
    world.clock.advance(by: .seconds(60))
    let third = try await world.guest("three")
    let cutoff = world.now
    func unused(after last: UnusedGuest? = nil, limit: Int = 9) async throws -> [UnusedGuest] {
      try await world.domain.look(UnusedGuests(before: cutoff, after: last, limit: limit))
    }
    #expect(try await world.domain.look(CountGuests()) == 3)
    #expect(try await Set(unused().map(\.id)) == [first.subject, second.subject])
    let one = try await unused(limit: 1)
    #expect(try await Set((one + unused(after: one.last)).map(\.id)) == [first.subject, second.subject])
    #expect(try await delete(third.subject, .unused(before: cutoff)) == .used)
    _ = try await world.refresh(second.id, 1)
    #expect(try await delete(second.subject, .unused(before: cutoff)) == .used)
    try await world.domain.perform(NoteExport(of: first.subject, recordsVersion: 7, at: world.now))
    #expect(try await unused().first { $0.id == first.subject }?.exportedVersion == 7)
    #expect(try await world.domain.look(FindStanding(of: first.subject))?.exportedAt == world.now)
    #expect(try await delete(first.subject, .unused(before: cutoff)) == .deleted(sessionsEnded: 1))
    #expect(try await world.domain.look(CountGuests()) == 2)
    let ada = try await world.account("ada").session
    #expect(try await delete(ada.subject, .unused(before: cutoff + .seconds(1))) == .notGuest)
    #expect(try await world.notes(.guestExported).map(\.subject) == [first.subject])
  }

  @Test("The records of whoever was deleted are purged when that is due, and again until they are gone")
  func purges() async throws {
    let guest = try await world.guest("key")
    _ = try await delete(guest.subject)
    func due(_ seconds: Int) async throws -> [PendingPurge] {
      try await world.domain.look(DuePurges(at: world.now + .seconds(seconds), limit: 9))
    }
    #expect(try await due(59) == [])
    #expect(try await due(60) == [PendingPurge(subject: guest.subject, attempts: 0)])
    let later = SettlePurge(of: guest.subject, .postponed(until: world.now + .seconds(120)))
    try await world.domain.perform(later)
    try await world.domain.perform(later)
    #expect(try await due(119) == [])
    #expect(try await due(120) == [PendingPurge(subject: guest.subject, attempts: 2)])
    try await world.domain.perform(SettlePurge(of: guest.subject, .done))
    try await world.domain.perform(later)
    #expect(try await due(3600) == [])
  }

  @Test("Who is kept out has no session and gets none until they are let in; it is on record once")
  func disabled() async throws {
    let ada = try await world.account("ada").session
    func setDisabled(_ isDisabled: Bool, _ subject: SubjectID? = nil) async throws -> Int? {
      try await world.domain.perform(
        SetDisabled(isDisabled, subject ?? ada.subject, detail: "abuse", at: world.now))
    }
    #expect(try await setDisabled(true) == 1)
    #expect(try await setDisabled(true) == 0)
    #expect(try await world.signIn("ada", as: ada.subject) == .disabled)
    #expect(try await setDisabled(false) == 0)
    guard case .signedIn = try await world.signIn("ada", as: ada.subject) else {
      Issue.record("who was let in again is kept out")
      return
    }
    #expect(try await setDisabled(true, world.id()) == nil)
    #expect(try await world.notes(.subjectDisabled).count == 1)
    #expect(try await world.notes(.subjectEnabled).count == 1)
    #expect(world.heard.ended.map(\.why) == [.subjectDisabled])
  }

  @Test("An administrator ends one subject's sessions, or everybody's in steps, but none that began since")
  func endSessions() async throws {
    let (ada, bob) = (try await world.account("ada").session, try await world.account("bob").session)
    _ = try await world.signIn("ada", as: ada.subject)
    let end = EndSessionsOf(ada.subject, detail: "stolen", at: world.now)
    #expect(try await world.domain.perform(end) == 2)
    #expect(try await world.domain.perform(EndSessionsOf(world.id(), detail: "", at: world.now)) == nil)
    #expect(try await world.notes(.adminChanged).map(\.detail) == ["ended sessions: stolen"])
    for _ in 0..<3 { _ = try await world.signIn("ada", as: ada.subject) }
    let until = world.now
    world.clock.advance(by: .seconds(1))
    guard case .signedIn(let since) = try await world.signIn("ada", as: ada.subject) else { throw Unexpected() }
    var counts: [Int] = []
    for _ in 0..<3 {
      counts.append(
        try await world.domain.perform(EndEverybodysSessions(begunUntil: until, limit: 3, at: world.now)))
    }
    #expect(counts == [3, 1, 0])
    #expect(try await !world.isLive(bob.id))
    #expect(try await world.isLive(since.session.id))
    #expect(Set(world.heard.ended.map(\.why)) == [.administrator])
    #expect(try await world.domain.look(FindOwner(of: try AccountIdentifier("ada").orThrow())) == ada.subject)
  }

  @Test("What is over is forgotten in bounded steps; what may still be asked for stays")
  func forget() async throws {
    var sessions: [Session] = []
    for number in 0..<5 { sessions.append(try await world.guest("key \(number)")) }
    let ended = world.now
    for session in sessions[..<3] {
      _ = try await world.domain.perform(EndSession(session.id, because: .loggedOut, at: ended))
    }
    #expect(try await world.domain.look(SessionsEnded(since: ended)).count == 3)
    #expect(try await world.domain.look(SessionsEnded(since: ended + .seconds(1))).isEmpty)
    // The challenges that these guests answered hold for minutes.
    func forget(endedBefore before: Timestamp, limit: Int) async throws -> Int {
      try await world.domain.perform(Forget(endedBefore: before, at: world.now, limit: limit))
    }
    #expect(try await forget(endedBefore: ended, limit: 9) == 0)
    world.clock.advance(by: .seconds(301))
    #expect(try await forget(endedBefore: ended, limit: 9) == 5)
    var counts: [Int] = []
    for _ in 0..<3 { counts.append(try await forget(endedBefore: ended + .seconds(1), limit: 2)) }
    #expect(counts == [2, 1, 0])
    #expect(try await world.session(sessions[0].id) == nil)
    #expect(try await world.isLive(sessions[4].id))
    world.clock.advance(by: .seconds(400 * 86_400))
    #expect(try await forget(endedBefore: world.now, limit: 9) == 2)
  }
}
