import LatchkeyModel
import Storage

/// In whose share a requester's tries and codes count.
enum RequesterShare {
  /// A device that the account was used on, or a network that it was signed in from: counted by itself.
  case known(String)
  /// Anybody else: counted by network, and all of them together.
  case stranger(String)

  /// Stands for all strangers.
  static let everybody = ""

  static func find(
    _ requester: Requester, of account: SubjectID?, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) -> RequesterShare {
    guard let account else { return .stranger("net \(requester.source)") }
    if let key = requester.provenKey, try SessionRow.hasSession(of: account, onDevice: key, in: db) {
      return .known(key)
    }
    if let guest = requester.guestSession, let key = try SessionRow.live(guest, at: now, in: db)?.device.keyThumbprint,
      try SessionRow.hasSession(of: account, onDevice: key, in: db)
    {
      return .known(key)
    }
    if try SourceRow.isKnown(requester.source, of: account, at: now, in: db) {
      return .known("known \(requester.source)")
    }
    return .stranger("net \(requester.source)")
  }

  var name: String {
    switch self {
    case .known(let name), .stranger(let name): name
    }
  }

  var isStranger: Bool { if case .stranger = self { true } else { false } }
}
