import Domain
import LatchkeyModel
import Storage
import Synchronization
import Testing

/// What is counted, handed out and written down at the same moment (C3).
@Suite("C3: of what forty count, hand out and write down nothing is lost, and nothing is there twice", .serialized)
struct KeptAtOnceTests {
  /// What was handed out, in the order in which it was.
  private final class HandedOut: Sendable {
    private let names = Mutex<[String]>([])

    var all: [String] { names.withLock { $0 } }

    /// How often it was, with this time.
    func note(_ name: String) -> Int {
      names.withLock { names in
        names.append(name)
        return names.filter { $0 == name }.count
      }
    }
  }

  @Test("C3: tries that are given back at once are all there again", arguments: WorldEngine.allCases)
  func tries(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    @Sendable func count(free: Int64) async throws -> CountedAttempt? {
      var policy = AttemptPolicy()
      (policy.free, policy.freeTogether) = (free, 1000)
      let attempt = SignInAttempt(
        targetHash: [7], account: nil, requester: Requester(source: "192.0.2.9"), now: world.now)
      return try await world.domain.perform(CountAttempt(attempt, under: policy)).counted
    }
    _ = try await world.forty { number -> Void in
      let counted = try await count(free: 1000).orThrow()
      if number % 2 == 0 { try await world.domain.perform(SettleAttempt(counted, .notMade)) }
    }
    let allowed = try await world.forty { _ -> Bool in try await count(free: 30) != nil }
    #expect(allowed.filter { $0 }.count == 10)

    let ada = try await world.account("ada", on: "phone")
    _ = try await world.domain.perform(
      EnrolUnlock(
        session: ada.id, kind: .pattern, keyThumbprint: "phone", secretHash: "hash", challenge: world.challenge(),
        notice: world.id(), now: world.now))
    _ = try await world.forty { number -> Void in
      guard try await world.domain.perform(TryPattern(of: "phone")) != nil else { return }
      try await world.domain.perform(SettlePattern(of: "phone", number % 2 == 0 ? .held : .notTried))
    }
    let tried = try await world.forty { _ -> Bool in try await world.domain.perform(TryPattern(of: "phone")) != nil }
    #expect(tried.filter { $0 }.count == 10)
  }

  @Test("C3: codes that did not arrive count for nobody", arguments: WorldEngine.allCases)
  func withdrawals(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    @Sendable func send(to source: String) async throws -> OneTimeCode? {
      let code = OneTimeCode(identifierHash: [1], codeHash: [2], handleHash: world.source.bytes(32))
      let outcome = try await world.domain.perform(
        IssueCode(code, for: nil, by: Requester(source: source), under: OneTimeCodePolicy(), at: world.now))
      return outcome == .issued ? code : nil
    }
    _ = try await world.forty { number -> Void in
      guard let code = try await send(to: "198.51.100.\(number)") else { return }
      try await world.domain.perform(WithdrawCode(code, under: OneTimeCodePolicy(), at: world.now))
    }
    let sent = try await world.forty { number -> Bool in try await send(to: "203.0.113.\(number)") != nil }
    #expect(sent.filter { $0 }.count == 20)
  }

  @Test("C3: owners are told each thing once, in its order", arguments: WorldEngine.allCases)
  func notices(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let now = world.now
    var waiting: [OwnerNotice] = []
    for owner in 0..<4 {
      let address = try AccountIdentifier("owner\(owner)@example.com").orThrow()
      for number in 0..<8 {
        let time = now - .seconds(8 - number)
        waiting.append(OwnerNotice(key: "\(owner) \(number)", .passwordSet, to: address, locale: nil, at: time))
      }
    }
    let notices = waiting
    try await world.write { rows throws(StorageError) in
      for notice in notices { try await rows.notices.insert(notice, dueAt: now) }
    }
    let lease = LeaseNotices(under: NoticePolicy(), on: .mail, limit: 3, at: now)
    let handed = HandedOut()
    _ = try await world.forty { _ -> Void in
      while true {
        let taken = try await world.domain.perform(lease).notices
        if taken.isEmpty { return }
        for notice in taken {
          _ = handed.note(notice.key)
          try await world.domain.perform(SettleNotice(notice.key))
        }
      }
    }
    for owner in 0..<4 {
      let told = handed.all.filter { $0.hasPrefix("\(owner) ") }
      #expect(told == (0..<8).map { "\(owner) \($0)" })
    }
  }

  @Test(
    "C3: what is due is done once, after it was given back and put off by whoever had it",
    arguments: WorldEngine.allCases)
  func purges(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let now = world.now
    let subjects = (0..<12).map { _ in world.id(SubjectID.self) }
    try await world.write { rows throws(StorageError) in
      for subject in subjects { try await rows.purges.insert(subject, dueAt: now) }
    }
    let handed = HandedOut()
    _ = try await world.forty { _ -> Void in
      while true {
        let taken = try await world.domain.perform(LeasePurges(at: now, until: now + .seconds(60), limit: 2))
        if taken.isEmpty { return }
        for purge in taken {
          let time = handed.note("\(purge.subject)")
          #expect(purge.attempts == (time == 3 ? 1 : 0))
          let result: SettlePurge.Result =
            switch time {
            case 1: .givenBack(at: now)
            case 2: .postponed(until: now)
            default: .done
            }
          try await world.domain.perform(SettlePurge(of: purge.subject, result))
        }
      }
    }
    let left = try await world.domain.look(DuePurges(at: now + .seconds(3600), limit: 99))
    let thrice = (subjects + subjects + subjects).map { "\($0)" }
    #expect(left.isEmpty)
    #expect(handed.all.sorted() == thrice.sorted())
  }

  @Test("C3: a chore has one holder, who has it until it is left", arguments: WorldEngine.allCases)
  func chores(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<5 {
      let leases = (0..<42).map { _ in
        UpkeepLease("chore \(round)", holder: world.id(SubjectID.self).value, duration: .seconds(60))
      }
      let (first, last) = (leases[40], leases[41])
      let isFirst = try await world.domain.perform(TakeUpkeep(first, at: world.now))
      let holders = try await world.forty { number -> UpkeepLease? in
        if number == 5 + 8 * round {
          try await world.domain.perform(LeaveUpkeep(first))
        } else if number % 4 == 0 {
          _ = try await world.domain.perform(RenewUpkeep(first, at: world.now))
        } else if try await world.domain.perform(TakeUpkeep(leases[number], at: world.now)) {
          return leases[number]
        }
        return nil
      }.compactMap { $0 }
      #expect(isFirst && holders.count <= 1)
      let isBack = try await world.domain.perform(RenewUpkeep(first, at: world.now))
      #expect(!isBack)
      for holder in holders {
        let isHeld = try await world.domain.perform(RenewUpkeep(holder, at: world.now))
        #expect(isHeld)
      }
      let isLast = try await world.domain.perform(TakeUpkeep(last, at: world.now))
      #expect(isLast == holders.isEmpty)
    }
  }

  @Test("C3: every report and every reset of a guide counts, once", arguments: WorldEngine.allCases)
  func guides(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let steps = try ["one", "two"].map { try GuideID($0).orThrow() }
    let guide = try GuideDefinition(
      id: GuideID("welcome").orThrow(), version: 1,
      steps: steps.map { step in
        GuideStep(
          id: step, page: "home", target: "button", messageKey: "text", isReversed: false, sinceVersion: 1)
      }
    ).orThrow()
    for round in 0..<5 {
      let guest = try await world.guest("key \(round)")
      let changes = try await world.forty { number -> Bool in
        if number % 4 == 0 {
          return try await !world.domain.perform(ResetGuide(guide.id, of: [guest.subject], at: world.now)).isEmpty
        }
        let known = try await world.domain.look(FindGuideProgress(of: guest.subject, in: guide.id)).first?.progress
        let outcome = try await world.domain.perform(
          ReportStep(
            session: guest.id, guide: guide, step: known?.step ?? steps[0],
            outcome: known?.status == .active ? .done : .shown, expectedRevision: known?.revision ?? 0,
            now: world.now))
        if case .taken(.changed, _) = outcome { return true }
        return false
      }
      let count = changes.filter { $0 }.count
      let after = try await world.domain.look(FindGuideProgress(of: guest.subject, in: guide.id)).first?.progress
      let told = world.heard.all.withLock { $0.flatMap(\.guides) }.filter { $0.subject == guest.subject }.count
      #expect(after?.revision == Int64(count) && told == count)
    }
  }

  @Test("C3: a wish to merge is offered, taken on and over, each as often as it was", arguments: WorldEngine.allCases)
  func wishes(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<4 {
      let (name, migration) = ("ada\(round)", "migration \(round)")
      let ada = try await world.account(name).session.subject
      let guest = try await world.guest("key \(round)")
      let choice = SignIn.Guest(session: guest.id, choice: .merge(world.id(), dueAt: world.now))
      guard case .signedIn(let signedIn) = try await world.signIn(name, as: ada, guest: choice),
        let wish = signedIn.merge?.id
      else { throw Unexpected() }
      _ = try await world.forty { number -> Void in
        switch number % 4 {
        case 0:
          let plan = PendingMerge.Plan(id: "\(number)", digest: "\(number)")
          try await world.domain.perform(NotePlan(plan, of: wish))
        case 1: try await world.domain.perform(ReturnMerge(wish, at: world.now))
        default: try await world.domain.perform(PostponeMerge(wish, because: "down", until: world.now))
        }
      }
      let offered = try await world.domain.look(FindMerge(wish)).orThrow()
      #expect(offered.attempts == 20 && offered.lastError == "down" && offered.state == .wanted)
      #expect(offered.plan != nil && offered.plan?.id == offered.plan?.digest)
      let outcomes = try await world.forty { number -> (isFailed: Bool, isCompleted: Bool) in
        switch number % 4 {
        case 0: try await world.domain.perform(StartMerge(wish, as: migration, at: world.now))
        case 1: _ = try await world.domain.perform(AbandonMerge(wish, because: "gone", at: world.now))
        case 2:
          let failure = FailMerge(
            migration, of: guest.subject, into: ada, startedWith: wish.description, because: "broken", at: world.now)
          return (try await world.domain.perform(failure), false)
        default:
          let completion = CompleteMerge(migration, of: guest.subject, into: ada, at: world.now)
          if case .completed = try await world.domain.perform(completion) { return (false, true) }
        }
        return (false, false)
      }
      let over = try await world.domain.look(FindMerge(wish)).orThrow()
      let given = world.heard.all.withLock { $0.flatMap(\.failedMerges) }.filter { $0.target == ada }.count
      let noted = try await world.notes(.mergeAbandoned).filter { $0.subject == guest.subject }.count
      #expect(over.state == .abandoned || over.state == .completed)
      #expect(given == (over.state == .abandoned ? 1 : 0) && noted == given)
      #expect(outcomes.filter { $0.isFailed }.count <= given)
      #expect(outcomes.filter { $0.isCompleted }.count == 1)
    }
  }

  @Test(
    "C3: what is forgotten of the log is a beginning of it, whoever goes on with it", arguments: WorldEngine.allCases)
  func logs(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let (old, before) = (world.now - .seconds(7200), world.now - .seconds(3600))
    let trim = TrimAuditLog(before: before, limit: 5, at: world.now, World.chain)
    let seals = try await world.forty { number -> Int in
      switch number % 8 {
      case 0...3:
        try await world.domain.perform(
          RecordEvents((0..<3).map { AuditNote(.callRefused, at: old, detail: "\(number) \($0)") }))
      case 4, 5: _ = try await world.domain.perform(trim)
      case 6: try await world.domain.perform(ForgetChains(before: before))
      default:
        let outcome = try await world.domain.perform(SealChains(after: nil, except: [:], at: world.now))
        return outcome.ends.isEmpty ? 0 : 1
      }
      return 0
    }
    while try await world.domain.perform(trim) > 0 {}
    let ends = try await world.domain.look(FindChainEnds())
    let checkpoints = try await world.domain.look(FindCheckpoints())
    #expect(ends.map(\.number).reduce(0, +) == Int64(60 + seals.reduce(0, +)))
    #expect(!checkpoints.isEmpty && checkpoints.allSatisfy { $0.seal == World.chain.seal($0.end) })
    for end in ends {
      var last = checkpoints.first { $0.chain == end.chain }?.end ?? AuditEnd(chain: end.chain)
      for event in try await world.domain.look(ListChain(end.chain, after: 0, limit: 1000)) {
        let link = World.chain.link(after: last, event.note)
        last = AuditEnd(chain: end.chain, number: last.number + 1, link: link)
        #expect(AuditEnd(event) == last)
      }
      #expect(last == end)
    }
  }
}
