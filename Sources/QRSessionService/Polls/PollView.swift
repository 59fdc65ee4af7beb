import LatchkeyModel

/// A session as its poller sees it.
struct PollView: Sendable, Equatable {
  let id: QRSessionID
  let state: QRSessionState
  let version: Int64
  /// The account that scanned, masked.
  let mask: DisplayText?
}
