import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import StorageSQLite
import Testing

@testable import IdentityService

@Suite("What an account's owner changes of it")
struct AccountServiceTests {
  private static let address = "ada@example.com"
  private static let newPassword = "a better horse battery"

  /// An account with a verified address, a session of its owner's and one that a thief holds.
  private struct Scene {
    let harness: IdentityHarness
    let box: Postbox
    let owner: CommonV1.TokenSet
    let stolen: CommonV1.TokenSet
    let subject: String

    func code(_ identifier: String = address) async throws -> IdentityV1.OtpCredential {
      let sent = box.codes.count
      let answer = try await harness.auth.sendOtp(
        IdentityV1.SendOtpRequest(clientID: "app.test", identifier: identifier, purpose: .proveAddress))
      return IdentityV1.OtpCredential(
        identifier: identifier, code: try await box.code(sent + 1), handle: answer.handle)
    }

    func recoveryCode() async throws -> IdentityV1.OtpCredential {
      let sent = box.codes.count
      let answer = try await harness.accounts.startRecovery(
        IdentityV1.StartRecoveryRequest(clientID: "app.test", identifier: address))
      return IdentityV1.OtpCredential(identifier: address, code: try await box.code(sent + 1), handle: answer.handle)
    }

    func isLive(_ tokens: CommonV1.TokenSet) async -> Bool { (try? await harness.refresh(tokens)) != nil }

    func told(_ notices: [AccountNotice]) async throws {
      try await eventually { box.notices.map(\.notice) == notices }
      #expect(box.notices.allSatisfy { $0.recipient.canonical == address })
    }
  }

  private func with(password: String? = IdentityHarness.password, _ body: (Scene) async throws -> Void) async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(codeSink: box)
    let couriers = [
      Task { await harness.core.courier.run() }, Task { await harness.rooms.upkeep.notices.run() },
    ]
    defer { for courier in couriers { courier.cancel() } }
    let sent = try await harness.auth.sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: Self.address, purpose: .proveAddress))
    let account = try await harness.auth.register(
      IdentityV1.RegisterRequest(
        clientID: "app.test",
        password: password.map { IdentityV1.PasswordCredential(identifier: Self.address, password: $0) },
        locale: "de",
        otp: IdentityV1.OtpCredential(identifier: Self.address, code: try await box.code(), handle: sent.handle)))
    harness.clock.advance(by: .seconds(61))
    let again = try await harness.auth.sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: Self.address))
    let stolen = try await harness.authenticate(
      .otp(IdentityV1.OtpCredential(identifier: Self.address, code: try await box.code(2), handle: again.handle)))
    harness.clock.advance(by: .seconds(61))
    try await body(
      Scene(
        harness: harness, box: box, owner: try account.tokens.orThrow(), stolen: try stolen.tokens.orThrow(),
        subject: try account.subject.orThrow().sub))
  }

  @Test("R48: a password is changed by who says the old one; other sessions end, and verified addresses are told")
  func change() async throws {
    try await with { scene in
      func change(
        _ password: String, _ tokens: CommonV1.TokenSet
      ) async throws -> IdentityV1.ChangePasswordResponse {
        try await scene.harness.accounts.changePassword(
          IdentityV1.ChangePasswordRequest(password: password, newPassword: Self.newPassword), options: .bearer(tokens))
      }
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await change("a guess", scene.stolen) }
      await expectRefusal(.invalidArgument, field: "password") { try await change("", scene.stolen) }
      #expect(try await change(IdentityHarness.password, scene.owner).sessionsEnded == 1)
      #expect(await !scene.isLive(scene.stolen))
      #expect(await scene.isLive(scene.owner))
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.harness.signIn(Self.address) }
      _ = try await scene.harness.signIn(Self.address, password: Self.newPassword)
      try await scene.told([.passwordChanged])
      #expect(scene.box.notices.first?.json["subject"]?.string == "Ihr Passwort wurde geändert")
    }
  }

  @Test("R48: other sessions stay when their owner says so")
  func keep() async throws {
    try await with { scene in
      let answer = try await scene.harness.accounts.changePassword(
        IdentityV1.ChangePasswordRequest(
          password: IdentityHarness.password, newPassword: Self.newPassword, otherSessions: .keep),
        options: .bearer(scene.owner))
      #expect(answer.sessionsEnded == 0)
      #expect(await scene.isLive(scene.stolen))
    }
  }

  @Test("R48: a first password is set a moment after a sign-in, not by a session that somebody found")
  func set() async throws {
    try await with(password: nil) { scene in
      func set(_ tokens: CommonV1.TokenSet) async throws -> IdentityV1.SetPasswordResponse {
        try await scene.harness.accounts.setPassword(
          IdentityV1.SetPasswordRequest(newPassword: Self.newPassword), options: .bearer(tokens))
      }
      scene.harness.clock.advance(by: .seconds(700))
      let later = try await scene.harness.refresh(scene.stolen)
      await expectRefusal(nil) { try await set(later) }
      let fresh = try await scene.harness.authenticate(.otp(try await scene.code())).tokens.orThrow()
      #expect(try await set(fresh).sessionsEnded == 2)
      #expect(await !scene.isLive(later))
      await expectRefusal(.failedPrecondition, "PASSWORD_SET") { try await set(fresh) }
      _ = try await scene.harness.signIn(Self.address, password: Self.newPassword)
      try await scene.told([.passwordSet])
    }
  }

  @Test("R48: a password is removed where something else leads in, by who says it")
  func remove() async throws {
    try await with { scene in
      func remove(
        _ password: String, _ tokens: CommonV1.TokenSet
      ) async throws -> IdentityV1.RemovePasswordResponse {
        try await scene.harness.accounts.removePassword(
          IdentityV1.RemovePasswordRequest(password: password), options: .bearer(tokens))
      }
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await remove("a guess", scene.stolen) }
      #expect(try await remove(IdentityHarness.password, scene.owner).sessionsEnded == 1)
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.harness.signIn(Self.address) }
      try await scene.told([.passwordRemoved])
      // An address that nobody verified is no way in.
      let bob = try await scene.harness.register("bob@example.com").tokens.orThrow()
      await expectRefusal(.failedPrecondition, "LAST_IDENTITY") {
        try await remove(IdentityHarness.password, bob)
      }
    }
  }

  @Test(
    "R48: a verified address recovers the account; what a thief has ends, unlocks included", .timeLimit(.minutes(1)))
  func recovery() async throws {
    try await with { scene in
      let key = try P256PrivateKey()
      let device = try await scene.harness.issueGuest(try TestDevice())
      let thief = try await scene.harness.signIn(Self.address, guest: device.tokens, onConflict: .switch)
      _ = try await scene.harness.enrolKey(key, thief.tokens)
      let code = try await scene.recoveryCode()
      func finish(_ otp: IdentityV1.OtpCredential) async throws -> IdentityV1.FinishRecoveryResponse {
        try await scene.harness.accounts.finishRecovery(
          IdentityV1.FinishRecoveryRequest(otp: otp, newPassword: Self.newPassword))
      }
      // A code to sign in is none to recover, nor the other way round.
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await scene.harness.authenticate(.otp(code)) }
      let signInCode = try await scene.code()
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await finish(signInCode) }
      #expect(try await finish(code).sessionsEnded == 3)
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await finish(code) }
      for tokens in [scene.owner, scene.stolen, try thief.tokens.orThrow()] { #expect(await !scene.isLive(tokens)) }
      let proof = try await scene.harness.proof(by: key, for: "latchkey-unlock-v1")
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
        try await scene.harness.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: proof)))
      }
      let back = try await scene.harness.signIn(Self.address, password: Self.newPassword)
      #expect(back.subject?.sub == scene.subject)
      try await scene.told([.unlockEnrolled, .recovered])
    }
  }

  @Test(
    "R48, R25: a recovery is answered alike for an account, an unverified address and nobody's, and sent to the first")
  func silence() async throws {
    try await with { scene in
      _ = try await scene.harness.register("bob@example.com")
      var answers: [IdentityV1.StartRecoveryResponse] = []
      let sent = scene.box.codes.count
      for identifier in ["bob@example.com", "nobody@example.com", Self.address] {
        var answer = try await scene.harness.accounts.startRecovery(
          IdentityV1.StartRecoveryRequest(clientID: "app.test", identifier: identifier))
        answer.handle = ""
        answers.append(answer)
      }
      #expect(Set(answers.map { "\($0)" }).count == 1)
      _ = try await scene.box.code(sent + 1)
      #expect(scene.box.recipients.last == Self.address && scene.box.codes.count == sent + 1)
      var reasons: Set<String?> = []
      for identifier in ["bob@example.com", "nobody@example.com"] {
        for guess in ["000000", "000001"] {
          let error = await expectRefusal(.unauthenticated) {
            try await scene.harness.accounts.finishRecovery(
              IdentityV1.FinishRecoveryRequest(
                otp: IdentityV1.OtpCredential(identifier: identifier, code: guess), newPassword: Self.newPassword))
          }
          reasons.insert(error?.details.reason)
        }
      }
      #expect(reasons == ["CODE_INVALID"])
    }
  }

  @Test("R24: a network that presents codes to recover as often as it may sign in waits; one that mistypes does not")
  func recoveryTries() async throws {
    let harness = try await IdentityHarness(signInsPerHour: 12)
    func finish(_ number: Int) async throws -> IdentityV1.FinishRecoveryResponse {
      try await harness.accounts.finishRecovery(
        IdentityV1.FinishRecoveryRequest(
          otp: IdentityV1.OtpCredential(identifier: "nobody\(number)@example.com", code: "000000"),
          newPassword: Self.newPassword))
    }
    // Each for another address, so that none waits for its own tries.
    for number in 0..<12 { await expectRefusal(.unauthenticated, "CODE_VOID") { try await finish(number) } }
    let wait = await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await finish(12) }
    #expect(wait?.details.retryAfter == .seconds(300))
    harness.clock.advance(by: .seconds(300))
    await expectRefusal(.unauthenticated, "CODE_VOID") { try await finish(12) }
  }

  /// Rows of counted tries.
  private func countedTries(_ harness: IdentityHarness) async throws -> Int64? {
    try await harness.database.read("look") { db throws(StorageError) in
      try db.first("SELECT COUNT(*) FROM sign_in_attempts") { $0.integer(0) }
    }
  }

  @Test("R54: a code whose handle is not on record counts for its network, whichever call presents it; no row is made")
  func madeUpHandles() async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(signInsPerHour: 6, codeSink: box)
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    let owner = try await harness.register(Self.address).tokens
    try await harness.proveAddresses()
    func finish(_ otp: IdentityV1.OtpCredential) async throws {
      _ = try await harness.accounts.finishRecovery(
        IdentityV1.FinishRecoveryRequest(otp: otp, newPassword: Self.newPassword))
    }
    func verify(_ otp: IdentityV1.OtpCredential) async throws {
      _ = try await harness.accounts.verifyIdentifier(
        IdentityV1.VerifyIdentifierRequest(otp: otp), options: .bearer(owner))
    }
    func link(_ otp: IdentityV1.OtpCredential) async throws { _ = try await harness.link(.otp(otp), owner) }
    // Each for another address, so that none waits for its own tries.
    func otp(_ number: Int, _ handle: String) -> IdentityV1.OtpCredential {
      IdentityV1.OtpCredential(identifier: "nobody\(number)@example.com", code: "000000", handle: handle)
    }
    let handles = ["made up", harness.core.codes.makeHandle()]
    for number in 0..<6 {
      let handle = handles[number % 2]
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await finish(otp(number, handle)) }
      let signedIn = number < 3 ? verify : link
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await signedIn(otp(10 + number, handle)) }
    }
    let before = try await countedTries(harness)
    for (number, handle) in handles.enumerated() {
      await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await finish(otp(30 + number, handle)) }
      await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await verify(otp(40 + number, handle)) }
      await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await link(otp(50 + number, handle)) }
    }
    let after = try await countedTries(harness)
    #expect(before == after && before != 0)
    let sent = try await harness.accounts.startRecovery(
      IdentityV1.StartRecoveryRequest(clientID: "app.test", identifier: Self.address))
    let right = IdentityV1.OtpCredential(
      identifier: Self.address, code: try await box.code(), handle: sent.handle)
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await finish(otp(60, sent.handle)) }
    try await finish(right)
    // Spent, its handle is as any other.
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await finish(right) }
  }

  @Test("R54: void codes to recover keep nobody who is signed in from showing theirs, and right ones do not count")
  func ownTally() async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(signInsPerHour: 2, codeSink: box)
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    let owner = try await harness.register(Self.address).tokens
    try await harness.proveAddresses()
    func finish(_ otp: IdentityV1.OtpCredential) async throws {
      _ = try await harness.accounts.finishRecovery(
        IdentityV1.FinishRecoveryRequest(otp: otp, newPassword: Self.newPassword))
    }
    func verify(_ otp: IdentityV1.OtpCredential) async throws {
      _ = try await harness.accounts.verifyIdentifier(
        IdentityV1.VerifyIdentifierRequest(otp: otp), options: .bearer(owner))
    }
    func void(_ number: Int) -> IdentityV1.OtpCredential {
      IdentityV1.OtpCredential(identifier: "nobody\(number)@example.com", code: "000000")
    }
    for number in 0..<2 { await expectRefusal(.unauthenticated, "CODE_VOID") { try await finish(void(number)) } }
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await finish(void(2)) }
    for number in 1...3 {
      _ = try await harness.auth.sendOtp(
        IdentityV1.SendOtpRequest(clientID: "app.test", identifier: Self.address))
      try await verify(IdentityV1.OtpCredential(identifier: Self.address, code: try await box.code(number)))
      harness.clock.advance(by: .seconds(61))
    }
    for number in 3..<5 { await expectRefusal(.unauthenticated, "CODE_VOID") { try await verify(void(number)) } }
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await verify(void(5)) }
  }

  @Test("R48: an address is verified by its code, for the account that has it and for no other")
  func verify() async throws {
    try await with { scene in
      let bob = try await scene.harness.register("bob@example.com").tokens.orThrow()
      func verify(
        _ otp: IdentityV1.OtpCredential, _ tokens: CommonV1.TokenSet
      ) async throws -> IdentityV1.VerifyIdentifierResponse {
        try await scene.harness.accounts.verifyIdentifier(
          IdentityV1.VerifyIdentifierRequest(otp: otp), options: .bearer(tokens))
      }
      let code = try await scene.code("bob@example.com")
      await expectRefusal(.notFound, "IDENTITY_NOT_FOUND") { try await verify(code, scene.stolen) }
      #expect(try await verify(code, bob).verified)
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await verify(code, bob) }
      scene.harness.clock.advance(by: .seconds(61))
      #expect(try await !verify(try await scene.code("bob@example.com"), bob).verified)
    }
  }

  @Test("R48: a profile is read and edited, field by field")
  func profile() async throws {
    try await with { scene in
      func update(
        _ profile: CommonV1.Profile, _ mask: [String]
      ) async throws -> CommonV1.Profile? {
        try await scene.harness.accounts.updateProfile(
          IdentityV1.UpdateProfileRequest(profile: profile, updateMask: mask), options: .bearer(scene.owner)
        ).profile
      }
      let before = try await scene.harness.accounts.getProfile(
        IdentityV1.GetProfileRequest(), options: .bearer(scene.owner))
      #expect(before.hasPassword && before.profile?.locale == "de" && before.subject?.sub == scene.subject)
      #expect(try await update(CommonV1.Profile(name: "Ada"), ["name"]) == CommonV1.Profile(name: "Ada", locale: "de"))
      #expect(try await update(CommonV1.Profile(locale: "fr"), []) == CommonV1.Profile(locale: "fr"))
      await expectRefusal(.invalidArgument, field: "profile.name") {
        try await update(CommonV1.Profile(name: "12345678901"), ["name"])
      }
      await expectRefusal(.invalidArgument, field: "update_mask[1]") {
        try await update(CommonV1.Profile(), ["name", "sub"])
      }
    }
  }

  @Test("R48: an account is deleted by its owner, not by a session that somebody found")
  func delete() async throws {
    try await with { scene in
      func delete(
        _ tokens: CommonV1.TokenSet, password: String = "", sub: String? = nil
      ) async throws -> IdentityV1.DeleteAccountResponse {
        try await scene.harness.accounts.deleteAccount(
          IdentityV1.DeleteAccountRequest(password: password, sub: sub ?? scene.subject), options: .bearer(tokens))
      }
      scene.harness.clock.advance(by: .seconds(700))
      let thief = try await scene.harness.refresh(scene.stolen)
      await expectRefusal(.unauthenticated, "STEP_UP_REQUIRED") { try await delete(thief) }
      await expectRefusal(.unauthenticated, "STEP_UP_REQUIRED") { try await delete(thief, password: "a guess") }
      let fresh = try await scene.harness.signIn(Self.address).tokens.orThrow()
      await expectRefusal(.invalidArgument, field: "sub") {
        try await delete(fresh, sub: SubjectID(from: scene.harness.core.random).description)
      }
      #expect(try await delete(fresh, password: IdentityHarness.password).sessionsEnded == 3)
      #expect(await !scene.isLive(fresh))
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await scene.harness.signIn(Self.address) }
      try await scene.told([.accountDeleted])
    }
  }

  @Test("R48, R50: who takes nothing is told again later, and others are told meanwhile", .timeLimit(.minutes(1)))
  func deadRecipient() async throws {
    try await with { scene in
      func change(_ password: String, _ new: String, _ tokens: CommonV1.TokenSet) async throws {
        _ = try await scene.harness.accounts.changePassword(
          IdentityV1.ChangePasswordRequest(password: password, newPassword: new), options: .bearer(tokens))
      }
      let bob = "bob@example.com"
      let other = try await scene.harness.auth.register(
        IdentityV1.RegisterRequest(
          clientID: "app.test",
          password: IdentityV1.PasswordCredential(identifier: bob, password: IdentityHarness.password),
          otp: try await scene.code(bob)))
      scene.box.refuse(Self.address)
      try await change(IdentityHarness.password, Self.newPassword, scene.owner)
      try await eventually { scene.box.refusals == 1 }
      try await change(IdentityHarness.password, Self.newPassword, try other.tokens.orThrow())
      try await eventually { scene.box.notices.map(\.recipient.canonical) == [bob] }
      scene.box.accept(Self.address)
      scene.harness.clock.advance(by: .seconds(61))
      try await eventually { scene.box.notices.map(\.recipient.canonical) == [bob, Self.address] }
    }
  }

  @Test("R48: every notice has a text in each language, and a header that mail can carry")
  func texts() {
    for language in ["en", "de", "es", "fr", "tlh"] {
      for notice in AccountNotice.allCases {
        let text = notice.text(in: LanguageTag(language))
        #expect(!text.subject.isEmpty && text.body.hasPrefix(text.subject))
        if language == "tlh" { #expect(text == notice.text(in: nil)) }
      }
    }
  }
}
