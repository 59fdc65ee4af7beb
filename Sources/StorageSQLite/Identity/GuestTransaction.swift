import LatchkeyModel
import Storage

/// What issuing a guest and logging out to a guest have in common.
enum GuestTransaction {
  /// Finds the guest of a device that is on record, or makes it, and begins its session. Earlier sessions of the guest
  /// on this device end. Nil when the guest is disabled.
  ///
  /// - Parameter device: what was known of the device before.
  static func begin(
    on device: DeviceRow?,
    withKey keyThumbprint: String,
    newSubject: SubjectID,
    locale: LanguageTag?,
    draft: SessionDraft,
    in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) -> IssuedGuest? {
    var guest: SubjectID?
    if let known = device?.guest, let subject = try SubjectRow.find(known, in: db), subject.isGuest {
      if subject.isDisabled { return nil }
      guest = known
    }
    if let guest {
      try SessionRow.endAll(
        of: guest, onDevice: keyThumbprint, because: .replaced, at: draft.now, in: db, noting: &changes)
      try SubjectRow.touch(guest, at: draft.now, in: db)
    } else {
      let profile = Profile(locale: locale)
      try SubjectRow.insert(
        Subject(id: newSubject, kind: .guest, createdAt: draft.now, profile: profile), into: db)
      try DeviceRow.setGuest(newSubject, of: keyThumbprint, in: db)
    }
    let session = draft.session(
      of: guest ?? newSubject, isGuest: true, deviceKeyThumbprint: keyThumbprint, by: draft.proven(isGuest: true))
    try SessionRow.insert(session, into: db, noting: &changes)
    return IssuedGuest(session: session, isNew: guest == nil, lastLogin: device?.lastLogin)
  }
}
