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

  /// A network that was not signed in from for this long is as any other.
  private static let networkLifetime: Duration = .seconds(90 * 86_400)

  static func find(
    _ requester: Requester, of account: SubjectID?, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) -> RequesterShare {
    guard let account else { return .stranger("net \(requester.source)") }
    if let key = requester.provenKey, try db.sessions.wasUsed(account, onDevice: key) {
      return .known(key)
    }
    if let guest = requester.guestSession, let key = try db.sessions.live(guest, at: now)?.device.keyThumbprint,
      try db.sessions.wasUsed(account, onDevice: key)
    {
      return .known(key)
    }
    if let last = try SQLiteSources(db: db).find(requester.source, of: account), last > now - networkLifetime {
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
