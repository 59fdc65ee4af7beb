import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("Starting as a guest, by the rules")
struct GuestTests {
  @Test("G2: forty starts at once with one key make one guest with one live session")
  func fortyAtOnce() async throws {
    let world = World()
    let guests = try await withThrowingTaskGroup(of: Session.self) { group in
      for _ in 0..<40 { group.addTask { try await world.guest("key") } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(Set(guests.map(\.subject)).count == 1)
    var live = 0
    for guest in guests where try await world.isLive(guest.id) { live += 1 }
    #expect(live == 1)
    #expect(Set(world.heard.ended.map(\.why)) == [.replaced] && world.heard.ended.count == 39)
  }

  @Test("R23: a challenge starts one guest, and is spent by a start that is refused as well")
  func challenge() async throws {
    let world = World()
    let challenge = world.challenge()
    #expect(try await world.startGuest("key", challenge: challenge, mayBeNew: false) == .full)
    #expect(try await world.startGuest("key", challenge: challenge) == .challengeUsed)
  }

  @Test("Where no more guests are made, a key that has one goes on with it")
  func full() async throws {
    let world = World()
    let guest = try await world.guest("key")
    #expect(try await world.startGuest("other", mayBeNew: false) == .full)
    guard case .started(let again) = try await world.startGuest("key", mayBeNew: false) else {
      Issue.record("the guest could not start again")
      return
    }
    #expect(again.session.subject == guest.subject && !again.isNew)
  }

  @Test(
    "G2: a number that a key has signed before says that two devices hold it; then neither starts, until one has a new key"
  )
  func cloned() async throws {
    let world = World()
    guard case .started(let first) = try await world.startGuest("key", counter: 1),
      case .started = try await world.startGuest("key", counter: 3),
      case .started = try await world.startGuest("key", counter: 2)
    else {
      Issue.record("numbers in any order are not each taken once")
      return
    }
    #expect(try await world.startGuest("key", counter: 2) == .cloned)
    #expect(try await world.startGuest("key", counter: 4) == .cloned)
    let replacement = KeyReplacement(
      oldKey: "key", device: try world.device("new"), challenge: world.challenge(), address: "192.0.2.1",
      now: world.now)
    let resolved = try await world.domain.perform(
      ResolveClone(replacement, .transfer, newSubject: world.id(), draft: try world.draft(.guest)))
    guard case .resolved(let guest) = resolved else {
      Issue.record("\(resolved)")
      return
    }
    #expect(guest.session.subject == first.session.subject)
    guard case .started(let other) = try await world.startGuest("key", counter: 1) else {
      Issue.record("who was left behind cannot begin anew")
      return
    }
    #expect(other.isNew && other.session.subject != first.session.subject)
  }

  @Test("G19: logging out brings the device its earlier guest back, in the same change")
  func logOut() async throws {
    let world = World()
    let guest = try await world.guest("key")
    let account = try await world.account("ada")
    guard
      case .signedIn(let signedIn) = try await world.signIn(
        "ada", as: account.session.subject, guest: SignIn.Guest(session: guest.id, choice: .leave))
    else {
      Issue.record("the account could not sign in")
      return
    }
    #expect(try await !world.isLive(guest.id))
    let outcome = try await world.domain.perform(
      LogOut(
        session: signedIn.session.id, reach: .local,
        nextGuest: LogOut.NextGuest(newSubject: world.id(), draft: try world.draft(.guest)), now: world.now))
    guard case .loggedOut(ended: 1, guest: let again?) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(again.session.subject == guest.subject && again.lastLogin?.accountMask != nil)
  }
}
