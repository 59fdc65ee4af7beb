import LatchkeyModel
import Storage

/// The devices with a live session of a subject, or with an unlock of it, the one seen last first.
package struct ListDevices: IdentityOperation {
  package static let name = "list devices"

  package var subject: SubjectID
  package var now: Timestamp

  package init(of subject: SubjectID, at now: Timestamp) {
    self.subject = subject
    self.now = now
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [KnownDevice] {
    var devices = try await rows.devices.all(usedBy: subject, at: now)
    let unlocks = try await rows.unlocks.all(of: subject)
    for index in devices.indices {
      devices[index].binding =
        unlocks.first { unlock in
          unlock.binding != nil && unlock.deviceKey == devices[index].keyThumbprint
        }?.binding
    }
    return devices
  }
}

/// Names one of a subject's devices. False when it is none of them.
package struct RenameDevice: IdentityCommand {
  package static let name = "rename a device"

  package var keyThumbprint: String
  package var subject: SubjectID
  package var label: DisplayText
  package var now: Timestamp

  package init(_ keyThumbprint: String, of subject: SubjectID, to label: DisplayText, at now: Timestamp) {
    self.keyThumbprint = keyThumbprint
    self.subject = subject
    self.label = label
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Bool {
    _ = try await rows.subjects.lock(subject)
    let renamed = try await rows.sessions.change(of: subject, onDevice: keyThumbprint, label: label, at: now)
    if renamed == 0 {
      guard try await rows.unlocks.all(of: subject).contains(where: { $0.deviceKey == keyThumbprint }) else {
        return false
      }
    }
    try await rows.devices.change(keyThumbprint, label: label)
    return true
  }
}
