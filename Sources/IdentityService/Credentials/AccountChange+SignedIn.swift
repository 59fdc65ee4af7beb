import Domain
import LatchkeyProtos

extension IdentityV1.AccountChange {
  init(_ signedIn: SignedIn) {
    self.init(
      previousSub: signedIn.previousSubject?.description ?? "",
      promoted: signedIn.isPromoted,
      wipeRequired: signedIn.isWipeRequired,
      migrationID: signedIn.merge?.migration ?? ""
    )
  }
}
