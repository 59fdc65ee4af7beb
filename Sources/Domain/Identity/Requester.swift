import LatchkeyModel
import Storage

/// Who asks or tries, as far as it matters in whose share that counts.
package struct Requester: Sendable, Equatable {
  /// The session of the guest who asks, by which a device is known.
  package var guestSession: SessionID?
  /// Thumbprint of a key that the call proved (RFC 9449).
  package var provenKey: String?
  /// The network that the call comes from.
  package var source: String

  package init(guestSession: SessionID? = nil, provenKey: String? = nil, source: String) {
    self.guestSession = guestSession
    self.provenKey = provenKey
    self.source = source
  }
}

/// In whose share a requester's tries and codes count.
enum RequesterShare {
  /// A device that the account was used on, or a network that it was signed in from: counted by itself.
  case known(String)
  /// Anybody else: counted by network, and all of them together.
  case stranger(network: String)

  /// Stands for all strangers.
  static let everybody = ""

  private static let networkPrefix = "net "

  /// A network that was not signed in from for this long is as any other.
  private static let networkLifetime: Duration = .seconds(90 * 86_400)

  static func find(
    _ requester: Requester, of account: SubjectID?, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) -> RequesterShare {
    guard let account else { return .stranger(network: requester.source) }
    if let key = requester.provenKey, try await rows.sessions.wasUsed(account, onDevice: key) { return .known(key) }
    if let guest = requester.guestSession,
      let key = try await rows.sessions.live(guest, at: now)?.device.keyThumbprint,
      try await rows.sessions.wasUsed(account, onDevice: key)
    {
      return .known(key)
    }
    if let last = try await rows.sources.find(requester.source, of: account), last > now - networkLifetime {
      return .known("known \(requester.source)")
    }
    return .stranger(network: requester.source)
  }

  var name: String {
    switch self {
    case .known(let name): name
    case .stranger(let network): Self.networkPrefix + network
    }
  }

  var isStranger: Bool { if case .stranger = self { true } else { false } }

  /// Whether what is counted by this name counts for all strangers as well.
  static func isStranger(_ name: String) -> Bool { name.hasPrefix(networkPrefix) }

  /// Whether it is a known device's or network's.
  static func isKnown(_ name: String) -> Bool { name != everybody && !isStranger(name) }
}
