import GRPC
import LatchkeyModel
import Storage

/// Tells the owners of accounts what was changed, at their verified addresses.
struct OwnerNotices: Surrounded {
  let links: any LinkStore
  let accounts: any AccountStore
  let courier: CodeCourier
  let surroundings: Surroundings

  /// Where an account's owner is told of changes.
  struct Owner: Sendable {
    let addresses: [AccountIdentifier]
    let locale: LanguageTag?
  }

  func owner(of account: SubjectID) async throws(RPCError) -> Owner {
    let identities = try await stored { () throws(StorageError) in try await links.identities(of: account) }
    let subject = try await stored { () throws(StorageError) in try await accounts.subject(account) }
    let addresses = identities.filter { $0.kind.isAddress && $0.isProven }.compactMap { AccountIdentifier($0.value) }
    return Owner(addresses: addresses, locale: subject?.profile.locale)
  }

  func tell(_ notice: AccountNotice, _ owner: Owner) {
    let now = clock.now()
    for address in owner.addresses {
      courier.tell(NoticeMessage(identifier: address, notice: notice, locale: owner.locale, at: now))
    }
  }
}
