import LatchkeyProtos

/// Answers `latchkey.migration.v1.RecordService`, one file for each method. Every method is about the records of the
/// caller, but those that only identity may call.
package struct RecordHandlers: MigrationV1.RecordService {
  let core: MigrationCore

  package init(_ core: MigrationCore) {
    self.core = core
  }
}
