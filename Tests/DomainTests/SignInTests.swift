import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("Signing in and registering, by the rules")
struct SignInTests {
  @Test("The password that was checked must still be the account's when the session begins")
  func passwordChanged() async throws {
    let world = World()
    let account = try await world.account("ada").session.subject
    let challenge = world.challenge()
    #expect(try await world.signIn("ada", as: account, hash: "another", challenge: challenge) == .credentialChanged)
    #expect(try await world.signIn("ada", as: world.id(), challenge: challenge) == .credentialChanged)
    // What was refused spent nothing.
    guard case .signedIn = try await world.signIn("ada", as: account, challenge: challenge) else {
      Issue.record("the challenge was spent by a refusal")
      return
    }
    #expect(try await world.signIn("ada", as: account, challenge: challenge) == .challengeUsed)
  }

  @Test("G24: forty equal requests begin one session, and each is answered with it")
  func replays() async throws {
    let world = World()
    let account = try await world.account("ada").session.subject
    let guest = try await world.guest("key")
    let replay = world.replay()
    let merge: MergeID = world.id()
    let answers = try await withThrowingTaskGroup(of: SignIn.Outcome.self) { group in
      for _ in 0..<40 {
        group.addTask {
          try await world.signIn(
            "ada", as: account,
            guest: SignIn.Guest(session: guest.id, choice: .merge(merge, dueAt: world.now)), replay: replay)
        }
      }
      return try await group.reduce(into: [SignIn.Outcome]()) { $0.append($1) }
    }
    let first = answers.compactMap { if case .signedIn(let signedIn) = $0 { signedIn } else { nil } }
    #expect(first.count == 1)
    let signedIn = try #require(first.first)
    #expect(answers.count { $0 == .repeated(signedIn) } == 39)
    #expect(signedIn.merge?.id == merge && signedIn.previousSubject == guest.subject)
    let again = try await world.domain.look(FindSignedIn(replaying: replay.key, at: world.now))
    #expect(again == signedIn)
    world.clock.advance(by: .seconds(60))
    #expect(try await world.domain.look(FindSignedIn(replaying: replay.key, at: world.now)) == nil)
  }

  @Test("A guest's data goes into one account at a time; the newest sign-in's session is the one that waits for it")
  func merges() async throws {
    let world = World()
    let (ada, bob) = (try await world.account("ada").session, try await world.account("bob").session)
    let guest = try await world.guest("key")
    func signIn(_ name: String, _ account: SubjectID) async throws -> SignIn.Outcome {
      try await world.signIn(
        name, as: account,
        guest: SignIn.Guest(session: guest.id, choice: .merge(world.id(), dueAt: world.now)))
    }
    guard case .signedIn(let first) = try await signIn("ada", ada.subject),
      case .signedIn(let second) = try await signIn("ada", ada.subject)
    else {
      Issue.record("the account could not sign in")
      return
    }
    #expect(first.merge?.isFirstLoginOnDevice == true)
    #expect(second.merge?.id == first.merge?.id && second.merge?.targetSession == second.session.id)
    #expect(try await signIn("bob", bob.subject) == .guestMerging)
    #expect(try await world.register("carl", guest: guest.id) == .guestMerging)
    #expect(try await !world.isLive(first.session.id))
  }

  @Test("P8: a device that another account used says that it is to be wiped")
  func wipe() async throws {
    let world = World()
    let (ada, bob) = (try await world.account("ada").session, try await world.account("bob").session)
    var wipes: [Bool] = []
    for (name, account) in [("ada", ada), ("ada", ada), ("bob", bob)] {
      let guest = try await world.guest("key")
      guard
        case .signedIn(let signedIn) = try await world.signIn(
          name, as: account.subject, guest: SignIn.Guest(session: guest.id, choice: .leave))
      else {
        Issue.record("the account could not sign in")
        return
      }
      wipes.append(signedIn.isWipeRequired)
    }
    #expect(wipes == [false, false, true])
  }

  @Test("A guest becomes the account in place: the same subject, a new session, and another guest for the device")
  func promotion() async throws {
    let world = World()
    let guest = try await world.guest("key")
    let account = try await world.account("ada", guest: guest.id)
    #expect(account.session.subject == guest.subject && account.isPromoted && !account.session.isGuest)
    #expect(world.heard.ended.map(\.why) == [.promoted])
    #expect(try await world.register("bob", guest: guest.id) == .guestGone)
    #expect(try await world.guest("key").subject != guest.subject)
  }

  @Test("Forty who register one name at once are one account, and the others are told")
  func registerAtOnce() async throws {
    let world = World()
    let outcomes = try await withThrowingTaskGroup(of: Register.Outcome.self) { group in
      for _ in 0..<40 { group.addTask { try await world.register("ada") } }
      return try await group.reduce(into: [Register.Outcome]()) { $0.append($1) }
    }
    #expect(outcomes.filter { $0 == .identifierTaken }.count == 39)
  }

  @Test("A ticket stands for a credential once, for the guest that it was given to, until it expires")
  func tickets() async throws {
    let world = World()
    let ada = try await world.account("ada").session
    let (guest, other) = (try await world.guest("key"), try await world.guest("other"))
    func keep(_ hash: UInt8) async throws -> KeepTicket.Outcome {
      let ticket = LinkTicket(
        hash: [hash], guestSession: guest.id, account: ada.subject,
        authority: Authority(
          scope: .account, method: .password, provenBy: .password, provenAt: world.now,
          expiry: world.now + .seconds(3600)),
        accountMask: "a***", expiry: world.now + .seconds(300))
      let proof = SignIn.Proof.password(
        account: ada.subject, identifier: try AccountIdentifier("ada").orThrow(), hash: "hash of ada")
      return try await world.domain.perform(KeepTicket(ticket, for: proof, challenge: nil, at: world.now))
    }
    func choose(_ hash: UInt8, _ guest: Session) async throws -> SignIn.Outcome {
      try await world.domain.perform(
        SignIn(
          proof: .ticket(hash: [hash]), guest: SignIn.Guest(session: guest.id, choice: .leave),
          draft: try world.draft(.password)))
    }
    #expect(try await keep(1) == .kept)
    #expect(try await keep(2) == .kept)
    #expect(try await choose(1, guest) == .ticketInvalid)
    #expect(try await choose(2, other) == .ticketInvalid)
    #expect(try await world.domain.look(FindTicket([2], of: other.id, at: world.now)) == nil)
    #expect(try await world.domain.look(FindTicket([2], of: guest.id, at: world.now)) != nil)
    guard case .signedIn(let signedIn) = try await choose(2, guest) else {
      Issue.record("the ticket was refused")
      return
    }
    #expect(signedIn.session.subject == ada.subject && signedIn.session.method == .password)
    let third = try await world.guest("key")
    #expect(try await choose(2, third) == .ticketInvalid)
  }

  @Test("Each change and its events are one: a refusal records nothing, and the chain holds")
  func audit() async throws {
    let world = World()
    let account = try await world.account("ada").session
    _ = try await world.signIn("ada", as: account.subject, hash: "another")
    _ = try await world.signIn("ada", as: account.subject)
    let last = try await world.read { rows throws(StorageError) in try await rows.audit.lockEnd() }
    var end = AuditEnd()
    for note in world.heard.all.withLock({ $0.flatMap(\.auditNotes) }) {
      end = AuditEnd(number: end.number + 1, link: World.chain.link(after: end, note))
    }
    #expect(last == end && end.number == 3)
  }
}
