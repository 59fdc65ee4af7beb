import LatchkeyProtos
import Testing

@testable import LatchkeyClient

@Suite("What a merge's state is to an app")
struct MergeStateTests {
  @Test(
    "R39: an app can read every state that the migrator tells, also while a merge is being undone",
    arguments: [
      (MigrationV1.MigrationState.queued, Merge.State.queued), (.running, .running), (.undoing, .undoing),
      (.done, .done), (.failed, .failed),
    ])
  func states(proto: MigrationV1.MigrationState, state: Merge.State) throws {
    let merge = try Merge(
      MigrationV1.Migration(migrationID: "m", state: proto, step: .switch, done: 3, total: 7, failure: "why"))
    #expect(merge.state == state && merge.step == "switch" && merge.failure == "why")
    #expect(merge.isFinished == (state == .done || state == .failed))
  }

  @Test("a state of a later version is an error that names it, not a guess")
  func unknown() {
    #expect(throws: ClientError.self) { try Merge(MigrationV1.Migration(state: .unspecified)) }
  }
}
