import GRPC
import LatchkeyProtos

extension DeviceClient {
  /// The account that uses this device, as its owner sees it.
  public func accountProfile() async throws(ClientError) -> AccountProfile {
    let accounts = IdentityV1.AccountServiceClient(channel: identity)
    let answer = try await authorized { options throws(RPCError) in
      try await accounts.getProfile(IdentityV1.GetProfileRequest(), options: options)
    }
    return AccountProfile(
      subject: SubjectID(try require(answer.subject, "GetProfileResponse.subject").sub),
      profile: Profile(answer.profile),
      hasPassword: answer.hasPassword,
      createdAt: answer.createdAt?.millisecondsSinceEpoch
    )
  }

  /// Writes the fields that are given; empty ones are emptied.
  public func updateProfile(
    name: String? = nil, avatarURL: String? = nil, locale: String? = nil
  ) async throws(ClientError) -> Profile {
    let fields = [("name", name), ("avatar_url", avatarURL), ("locale", locale)]
    let accounts = IdentityV1.AccountServiceClient(channel: identity)
    let request = IdentityV1.UpdateProfileRequest(
      profile: CommonV1.Profile(name: name ?? "", avatarURL: avatarURL ?? "", locale: locale ?? ""),
      updateMask: fields.filter { $0.1 != nil }.map(\.0)
    )
    guard !request.updateMask.isEmpty else { return try await accountProfile().profile }
    let answer = try await authorized { options throws(RPCError) in
      try await accounts.updateProfile(request, options: options)
    }
    return Profile(answer.profile)
  }

  /// Gives the account its first password, a moment after a sign-in. Returns how many other sessions ended.
  public func setPassword(_ new: String, endingOthers: Bool = true) async throws(ClientError) -> Int {
    let accounts = IdentityV1.AccountServiceClient(channel: identity)
    let request = IdentityV1.SetPasswordRequest(newPassword: new, otherSessions: endingOthers ? .end : .keep)
    let answer = try await authorized { options throws(RPCError) in
      try await accounts.setPassword(request, options: options)
    }
    return Int(answer.sessionsEnded)
  }

  /// Returns how many other sessions ended.
  public func changePassword(
    from old: String, to new: String, endingOthers: Bool = true
  ) async throws(ClientError) -> Int {
    let accounts = IdentityV1.AccountServiceClient(channel: identity)
    let request = IdentityV1.ChangePasswordRequest(
      password: old, newPassword: new, otherSessions: endingOthers ? .end : .keep)
    let answer = try await authorized { options throws(RPCError) in
      try await accounts.changePassword(request, options: options)
    }
    return Int(answer.sessionsEnded)
  }

  /// Returns how many other sessions ended.
  ///
  /// Errors: the service's `LAST_IDENTITY`, because nothing else would lead to the account.
  public func removePassword(_ password: String, endingOthers: Bool = true) async throws(ClientError) -> Int {
    let accounts = IdentityV1.AccountServiceClient(channel: identity)
    let request = IdentityV1.RemovePasswordRequest(password: password, otherSessions: endingOthers ? .end : .keep)
    let answer = try await authorized { options throws(RPCError) in
      try await accounts.removePassword(request, options: options)
    }
    return Int(answer.sessionsEnded)
  }

  /// Sends a code to an address, if an account has it and verified it, to set a new password with.
  public func startRecovery(of address: String, locale: String = "") async throws(ClientError) -> CodeSent {
    let accounts = IdentityV1.AccountServiceClient(channel: identity)
    let request = IdentityV1.StartRecoveryRequest(
      clientID: configuration.clientID, identifier: address, locale: locale, guestToken: try await guestToken())
    let answer = try await open { options throws(RPCError) in
      let working = Working(request) { request, challenge, solution in
        request.challenge = challenge
        request.powSolution = solution
      }
      return try await working.send { request throws(RPCError) in
        try await accounts.startRecovery(request, options: options)
      }
    }
    remember(codeHandle: answer.handle, for: Self.recovery(address))
    return CodeSent(
      expiresIn: .told(seconds: answer.expiresIn),
      resendAfter: .told(seconds: answer.resendAfter),
      attemptsLeft: Int(answer.attemptsLeft)
    )
  }

  /// Sets a new password by the code of ``startRecovery(of:locale:)``. Signs nobody in. Returns how many sessions ended.
  public func finishRecovery(
    of address: String, code: String, newPassword: String, endingSessions: Bool = true
  ) async throws(ClientError) -> Int {
    let accounts = IdentityV1.AccountServiceClient(channel: identity)
    var credential = codeCredential(Self.recovery(address), code)
    credential.identifier = address
    let request = IdentityV1.FinishRecoveryRequest(
      otp: credential, newPassword: newPassword, otherSessions: endingSessions ? .end : .keep)
    let answer = try await open { options throws(RPCError) in
      try await accounts.finishRecovery(request, options: options)
    }
    return Int(answer.sessionsEnded)
  }

  /// Shows that an address of the account is its owner's, by a code that ``sendCode(to:purpose:locale:)`` sent with
  /// ``CodePurpose/proveAddress``. False when it was verified before.
  public func verify(address: String, code: String) async throws(ClientError) -> Bool {
    let accounts = IdentityV1.AccountServiceClient(channel: identity)
    let request = IdentityV1.VerifyIdentifierRequest(otp: codeCredential(address, code))
    let answer = try await authorized { options throws(RPCError) in
      try await accounts.verifyIdentifier(request, options: options)
    }
    return answer.verified
  }

  /// Deletes the account and everything in it, for good, and forgets its credential on this device.
  ///
  /// - Parameter password: the account's; not needed a moment after a sign-in.
  public func deleteAccount(password: String = "") async throws(ClientError) {
    let before = try storedSession()
    let accounts = IdentityV1.AccountServiceClient(channel: identity)
    let request = IdentityV1.DeleteAccountRequest(password: password, sub: before?.sub ?? "")
    _ = try await authorized { options throws(RPCError) in
      try await accounts.deleteAccount(request, options: options)
    }
    try keep(nil, insteadOf: before)
  }

  /// Under which the handle of a recovery's code is remembered: no address holds a space.
  private static func recovery(_ address: String) -> String { "recovery \(address)" }
}

extension Profile {
  init(_ profile: CommonV1.Profile?) {
    self.init(name: profile?.name ?? "", avatarURL: profile?.avatarURL ?? "", locale: profile?.locale ?? "")
  }
}
