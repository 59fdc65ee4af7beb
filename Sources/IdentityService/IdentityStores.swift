import Domain
import Storage
import StorageSQLite

/// Every store of the service, over one database.
struct IdentityStores: Sendable {
  let domain: IdentityDomain
  let accounts: any AccountStore
  let attempts: any AttemptStore
  let sessions: any SessionStore
  let devices: any DeviceStore
  let subjects: any SubjectStore
  let transfers: any TransferStore
  let links: any LinkStore
  let owners: any OwnerStore
  let unlocks: any UnlockStore
  let merges: any MergeStore
  let qrGrants: any QRGrantStore
  let oneTimeCodes: any OneTimeCodeStore
  let audit: any AuditStore
  let guides: any GuideStore

  init(_ file: SQLiteDatabase, audit chain: AuditChain, listeners: [any SessionListener]) {
    domain = IdentityDomain(SQLiteIdentityStorage(file), audit: chain, listeners: listeners)
    let database = IdentityDatabase(file, audit: chain, listeners: listeners)
    accounts = SQLiteAccountStore(database)
    attempts = SQLiteAttemptStore(database)
    sessions = SQLiteSessionStore(database)
    devices = SQLiteDeviceStore(database)
    subjects = SQLiteSubjectStore(database)
    transfers = SQLiteTransferStore(database)
    links = SQLiteLinkStore(database)
    owners = SQLiteOwnerStore(database)
    unlocks = SQLiteUnlockStore(database)
    merges = SQLiteMergeStore(database)
    qrGrants = SQLiteQRGrantStore(database)
    oneTimeCodes = SQLiteOneTimeCodeStore(database)
    audit = SQLiteAuditStore(database)
    guides = SQLiteGuideStore(database)
  }
}
