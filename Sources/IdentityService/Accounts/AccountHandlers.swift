import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Answers `latchkey.identity.v1.AccountService`, one file for each method.
package struct AccountHandlers: IdentityV1.AccountService {
  let core: IdentityCore

  package init(_ core: IdentityCore) {
    self.core = core
  }

  func endsOthers(_ choice: IdentityV1.OtherSessions) throws(RPCError) -> Bool {
    switch choice {
    case .unspecified, .end: true
    case .keep: false
    case .unrecognized: throw .invalid("other_sessions", "must be END or KEEP")
    }
  }

  func passwordHash(of account: SubjectID) async throws(RPCError) -> String? {
    try await core.stored { () throws(StorageError) in try await core.links.passwordHash(of: account) }
  }

  /// Makes the change, and tells the account's verified addresses. Returns how many sessions ended.
  func change(
    _ change: PasswordChange, telling notice: AccountNotice
  ) async throws(RPCError) -> Int64 {
    let outcome = try await core.stored { () throws(StorageError) in try await core.owners.changePassword(change) }
    switch outcome {
    case .changed(let changed):
      tell(notice, try await owner(changed.account))
      return Int64(changed.sessionsEnded)
    case .callerEnded: throw .sessionRevoked
    case .stale: throw .passwordChangedMeanwhile
    case .codeSpent: throw .codeVoid
    case .lastWayIn: throw .passwordIsLast
    case .disabled: throw .subjectDisabled
    }
  }

  /// Where an account's owner is told of changes.
  struct Owner: Sendable {
    let addresses: [AccountIdentifier]
    let locale: LanguageTag?
  }

  func owner(_ account: SubjectID) async throws(RPCError) -> Owner {
    let identities = try await core.stored { () throws(StorageError) in try await core.links.identities(of: account) }
    let subject = try await core.stored { () throws(StorageError) in try await core.accounts.subject(account) }
    let addresses = identities.filter { $0.kind.isAddress && $0.isProven }.compactMap { AccountIdentifier($0.value) }
    return Owner(addresses: addresses, locale: subject?.profile.locale)
  }

  func tell(_ notice: AccountNotice, _ owner: Owner) {
    let now = core.clock.now()
    for address in owner.addresses {
      core.courier.tell(NoticeMessage(identifier: address, notice: notice, locale: owner.locale, at: now))
    }
  }
}
