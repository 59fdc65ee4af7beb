import Cryptography
import Domain
import LatchkeyModel
import ServiceRuntime
import Storage

@testable import IdentityService

/// What the tests look at inside the service, by name.
struct Insides: Sendable {
  let rooms: IdentityRooms

  var codes: CodeMint { rooms.auth.methods.evidence.codes.mint }
  var courier: CodeCourier { rooms.upkeep.courier }
  var endedSessions: EndedSessions { rooms.sessions.endedSessions }
  var guideWatches: GuideWatches { rooms.guides.guideWatches }
  var migrator: Migrator? { rooms.auth.migrator }
  var passwords: PasswordHasher { rooms.auth.methods.evidence.secrets.passwords }
  var proofs: DPoPVerifier { rooms.auth.callers.proofs }
  var purger: RecordPurger? { rooms.upkeep.purger }
  var random: RandomSource { rooms.auth.random }
  var refusals: RefusalRecorder { rooms.upkeep.audit.refusals }
  var retention: GuestRetention { rooms.upkeep.guests.retention }
  var sessionEvents: SessionEventHub { rooms.sessions.sessionEvents }
  var tokens: TokenIssuer { rooms.auth.tokens }

  func session(_ id: SessionID) async throws -> Session? { try await look(FindSession(id)) }

  func perform<Command: IdentityCommand>(_ command: Command) async throws -> Command.Outcome {
    try await rooms.auth.domain.perform(command)
  }

  func look<Query: IdentityOperation>(_ query: Query) async throws -> Query.Outcome {
    try await rooms.auth.domain.look(query)
  }
}
