import Cryptography
import LatchkeyModel
import ServiceRuntime
import Storage

@testable import IdentityService

/// What the tests look at inside the service, by name.
struct Insides: Sendable {
  let rooms: IdentityRooms

  var accounts: any AccountStore { rooms.accounts.accounts }
  var audit: any AuditStore { rooms.audit.audit }
  var codes: CodeMint { rooms.auth.methods.evidence.codes.mint }
  var courier: CodeCourier { rooms.upkeep.courier }
  var endedSessions: EndedSessions { rooms.sessions.endedSessions }
  var guideProgress: any GuideStore { rooms.guides.guideProgress }
  var guideWatches: GuideWatches { rooms.guides.guideWatches }
  var links: any LinkStore { rooms.links.links }
  var merges: any MergeStore { rooms.grants.merges }
  var migrator: Migrator? { rooms.auth.migrator }
  var passwords: PasswordHasher { rooms.auth.methods.evidence.secrets.passwords }
  var proofs: DPoPVerifier { rooms.auth.callers.proofs }
  var purger: RecordPurger? { rooms.upkeep.purger }
  var random: RandomSource { rooms.auth.random }
  var refusals: RefusalRecorder { rooms.upkeep.audit.refusals }
  var retention: GuestRetention { rooms.upkeep.guests.retention }
  var sessionEvents: SessionEventHub { rooms.sessions.sessionEvents }
  var sessions: any SessionStore { rooms.sessions.sessions }
  var subjects: any SubjectStore { rooms.admin.subjects }
  var tokens: TokenIssuer { rooms.auth.tokens }
}
