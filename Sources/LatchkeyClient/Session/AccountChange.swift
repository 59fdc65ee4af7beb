/// What a sign-in changed for the data on this device.
public struct AccountChange: Sendable, Equatable {
  /// Who used the device before; nil when nobody did.
  public let previousSubject: SubjectID?
  /// The guest became the account: its subject and data stay.
  public let promoted: Bool
  /// The device now belongs to someone else: wipe caches and stored credentials before going on.
  public let wipeRequired: Bool
  /// The migration that moves the guest's data, when one was started.
  public let migrationID: String?
  /// The guest's data will be moved as soon as the migrator can be reached; signing in again in the same way tells
  /// the migration's id.
  public let migrationPending: Bool
}
