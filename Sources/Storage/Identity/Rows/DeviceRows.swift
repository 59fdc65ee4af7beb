import LatchkeyModel

/// Devices, by the thumbprints of their keys.
package protocol DeviceRows {
  func find(_ keyThumbprint: String) async throws(StorageError) -> StoredDevice?

  func lock(_ keyThumbprint: String) async throws(StorageError) -> StoredDevice?

  /// What its owner knows a device by.
  func label(of keyThumbprint: String) async throws(StorageError) -> DisplayText?

  /// The devices with a live session of a subject, or with an unlock of it, the one seen last first, without what bound
  /// them. One that has no row, because it only bound its tokens to its key, is told of by its sessions.
  func all(usedBy subject: SubjectID, at now: Timestamp) async throws(StorageError) -> [KnownDevice]

  /// Stores what a device said of itself, whether it is new or known; of a known one, what it did not say stays.
  ///
  /// - Parameters:
  ///   - counter: nil leaves it as it is.
  ///   - guest: whose it is from now on; nil leaves that as it is.
  func put(
    _ device: DeviceRegistration, counter: ProofCounter?, newGuest guest: SubjectID?, at now: Timestamp
  ) async throws(StorageError)

  /// Stores what its owner knows a device by.
  func change(_ keyThumbprint: String, label: DisplayText) async throws(StorageError)

  func change(_ keyThumbprint: String, guest: SubjectID?) async throws(StorageError)

  func change(_ keyThumbprint: String, clonedAt time: Timestamp) async throws(StorageError)

  func change(
    _ keyThumbprint: String, lastAccount: SubjectID, _ hint: LastLoginHint
  ) async throws(StorageError)

  /// The devices that have a guest.
  func keys(ofGuest guest: SubjectID) async throws(StorageError) -> [String]

  /// Takes a guest from every device that has it.
  func removeGuest(_ guest: SubjectID) async throws(StorageError)

  /// Takes a guest from one device, if that has it.
  func removeGuest(_ guest: SubjectID, from keyThumbprint: String) async throws(StorageError)

  /// No device tells any more that a subject used it; one that tells of nobody else goes.
  func remove(usesOf subject: SubjectID) async throws(StorageError)

  /// Nothing is known any more of what the key counted, or that two devices hold it.
  func resetCounter(_ keyThumbprint: String) async throws(StorageError)

  /// Who uses a device, and who did, is known of another key from now on, which is on record, and no more of the first.
  func move(_ keyThumbprint: String, to other: String) async throws(StorageError)
}

/// What is known of a device besides what it says of itself.
package struct StoredDevice: Sendable, Equatable {
  package var guest: SubjectID?
  package var lastAccount: SubjectID?
  package var lastLogin: LastLoginHint?
  /// The numbers that the key has signed its proofs with; nil for apps that count nothing.
  package var counter: ProofCounter?
  /// Two devices are known to hold the key.
  package var isCloned: Bool

  package init(
    guest: SubjectID? = nil, lastAccount: SubjectID? = nil, lastLogin: LastLoginHint? = nil,
    counter: ProofCounter? = nil, isCloned: Bool = false
  ) {
    self.guest = guest
    self.lastAccount = lastAccount
    self.lastLogin = lastLogin
    self.counter = counter
    self.isCloned = isCloned
  }
}
